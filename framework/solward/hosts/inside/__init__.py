"""Code of the zygote and of plugin hosts: nothing here may reach keys, settings or stores."""
