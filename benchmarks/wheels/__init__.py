"""What an installed wheel takes: seconds, bytes, and the speed of the kernels of the stable ABI."""
