"""What tests of several rooms share: data with known answers, bits of whatever is compared, weights, commands."""
