"""Do the tests notice when the code is wrong? Small faults, one at a time, and the test files that should fail."""
