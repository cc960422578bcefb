"""What is fuzzed, in rooms: a list of targets each."""
