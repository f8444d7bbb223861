// What a kernel could try on the emulator, where it is machine code of a process: look around, write, forge.
// Bytes it finds go to its output, one a float; y[0] is -1 where the system refused.
extern "C" int open(const char*, int, ...);
extern "C" long read(int, void*, unsigned long);
extern "C" int socket(int, int, int);
extern "C" int connect(int, const void*, unsigned);
extern "C" int kill(int, int);
extern "C" int getppid();
extern "C" long write(int, const void*, unsigned long);
extern "C" long ptrace(int, int, void*, void*);

__device__ char path[256];

__global__ void reads_file(const int* letters, float* y, int count, int n) {
    for (int i = 0; i < count; i++) path[i] = (char)letters[i];
    path[count] = 0;
    int file = open(path, 0);
    for (int i = 0; i < n; i++) y[i] = 0.0f;
    if (file < 0) { y[0] = -1.0f; return; }
    unsigned char bytes[4096];
    long got = read(file, bytes, n < 4096 ? n : 4096);
    for (long i = 0; i < got; i++) y[i] = bytes[i];
}

__global__ void writes_file(const int* letters, float* y, int count) {
    for (int i = 0; i < count; i++) path[i] = (char)letters[i];
    path[count] = 0;
    y[0] = open(path, 0101, 0600) < 0 ? -1.0f : 1.0f;
}

__global__ void calls_out(float* y, int port) {
    struct { unsigned short family, port; unsigned address; char rest[8]; } to = {2, 0, 0x0100007f, {0}};
    to.port = (unsigned short)((port & 255) << 8 | port >> 8);
    y[0] = connect(socket(2, 1, 0), &to, 16) < 0 ? -1.0f : 1.0f;
}

__global__ void attacks_parent(float* y) {
    y[0] = ptrace(16, getppid(), 0, 0) < 0 ? -1.0f : 1.0f;
    y[1] = kill(getppid(), 9) < 0 ? -1.0f : 1.0f;
}

__global__ void spins(float* y) {
    printf("spinning\n");
    do y[0] += 1.0f;
    while (y[0] > 0.0f);
}

// Answers on every descriptor it can think of, then leaves before the runtime can speak.
extern "C" void _exit(int);
__global__ void forges_answer(float* y) {
    char frame[9 + 200] = "a";
    const char text[] = "{\"stopped\":0,\"blocks\":1,\"traced_blocks\":1,\"barriers\":0,\"warp_operations\":0,"
                        "\"unit_products\":0,\"printed\":\"\",\"print_calls\":0,\"converses\":0,\"faults\":[],\"sites\":[]}";
    frame[8] = sizeof(text) - 1;
    for (unsigned i = 0; i < sizeof(text) - 1; i++) frame[9 + i] = text[i];
    for (int number = 3; number < 64; number++) {
        write(number, frame, 9 + sizeof(text) - 1);
        write(number, "a\0\0\0\0\0\0\0\0", 9);  // and no variable was changed
    }
    _exit(0);
}

__global__ void speaks_nonsense(float* y) {
    for (int number = 3; number < 64; number++) write(number, "a\0\0\0\0\0\0\0\4{{{{", 13);
    _exit(0);
}
