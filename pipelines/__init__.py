"""Jobs of Patchbeam: each module reads a job file and wires transforms together."""
