"""Arrays of whole numbers in .npy and .npz files; the rows of a large .npy stay in the file."""
