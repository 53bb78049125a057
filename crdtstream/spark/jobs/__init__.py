"""Jobs that use the data source; each is a function and a command of `crdtstream spark`."""
