"""What tests of several rooms share: data whose answer is known, bits of whatever is compared, weights as a matrix."""
