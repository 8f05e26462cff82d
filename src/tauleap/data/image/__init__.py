"""Images: PNG and JPEG files, idx files, .npz archives, and the datasets digits, MNIST and CIFAR-10."""
