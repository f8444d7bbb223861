"""What a person can do about a failed call: the endings of its messages."""

LATER = "try later, `workbench resume` goes on"
SERVER = "check OPENAI_BASE_URL and that the server runs"
SLOWER = "the server may be overloaded, WORKBENCH_PARALLEL=1 asks one thing at a time"
ANOTHER = "another model may do better"
