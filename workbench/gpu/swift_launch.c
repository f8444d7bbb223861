/* One launch in one call from Python: what changes from call to call comes as arguments, the rest lies ready.

   launch(template, stream, address, ...) copies the template to its own stack, fills in the stream and the
   pointers and calls cuLaunchKernelEx, without the interpreter's lock. It returns the driver's code. Many
   threads may call it with one template. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_CELLS = 64, CONFIG_WORDS = 7, STREAM_WORD = 4 };

/* Eight bytes each; after it the cell of every pointer, then every cell. */
typedef struct {
    uint64_t entry, function, cells, pointers, config[CONFIG_WORDS];
} Head;

typedef int (*Entry)(const void* config, void* function, void** parameters, void** extra);

static PyObject* launch(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    (void)self;
    if (count < 2 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "launch(template, stream, address, ...)");
        return NULL;
    }
    const char* bytes = PyBytes_AS_STRING(args[0]);
    size_t size = (size_t)PyBytes_GET_SIZE(args[0]);
    Head head;
    if (size >= sizeof head) memcpy(&head, bytes, sizeof head);
    if (size < sizeof head || head.cells > MOST_CELLS || head.pointers > head.cells ||
        size != sizeof head + 8 * (head.pointers + head.cells) || (uint64_t)count != 2 + head.pointers) {
        PyErr_SetString(PyExc_ValueError, "not a template of this many pointers");
        return NULL;
    }
    uint64_t places[MOST_CELLS], cells[MOST_CELLS];
    void* parameters[MOST_CELLS];
    memcpy(places, bytes + sizeof head, 8 * head.pointers);
    memcpy(cells, bytes + sizeof head + 8 * head.pointers, 8 * head.cells);
    head.config[STREAM_WORD] = PyLong_AsUnsignedLongLong(args[1]);
    for (uint64_t i = 0; i < head.pointers; ++i) {
        if (places[i] >= head.cells) {
            PyErr_SetString(PyExc_ValueError, "a pointer beyond the last argument");
            return NULL;
        }
        cells[places[i]] = PyLong_AsUnsignedLongLong(args[2 + i]);
    }
    if (PyErr_Occurred()) return NULL;
    for (uint64_t i = 0; i < head.cells; ++i) parameters[i] = &cells[i];
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = ((Entry)(uintptr_t)head.entry)(head.config, (void*)(uintptr_t)head.function, parameters, NULL);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(code);
}

static PyMethodDef methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL, "launch(template, stream, address, ...) -> code"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "swift_launch", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_swift_launch(void) { return PyModule_Create(&module); }
