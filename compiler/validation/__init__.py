"""Translation validation: every pass is checked by running the program before and after it on random inputs."""
