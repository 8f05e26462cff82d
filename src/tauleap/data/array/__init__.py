"""Arrays of whole numbers, .npy and .npz; a large .npy stays in its file."""
