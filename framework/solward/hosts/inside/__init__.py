"""What runs in the zygote and in plugin hosts: nothing here may reach keys, settings or stores."""
