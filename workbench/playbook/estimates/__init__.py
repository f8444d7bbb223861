"""The model of time that ranks technique vectors before anything is compiled. Never a measurement."""
