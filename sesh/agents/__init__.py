"""How coding agents are launched, resumed, heard and read: what each of them says, in one place."""
