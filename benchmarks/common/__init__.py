"""What all benchmarks share: processes, clocks, sets, command lines, result files, tables and figures."""
