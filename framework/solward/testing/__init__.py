"""What a plugin author tests with: a pytest plugin (`plugin`) and the conformance kit."""
