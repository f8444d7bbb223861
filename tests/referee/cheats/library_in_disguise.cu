// number: 25
// name: a library call dressed as a kernel
// problem: softmax
// expect: passed library
//
// The kernel is a ghost: its branch is never taken. Right, but no kernel: the card says who did the work.
/* plan
def plan(x):
    rows, cols = x.shape
    y = library("aten._softmax", x, 1, False)
    launch("ghost", grid=1, block=32, args=[y, cols])
    return y
*/
__global__ void ghost(float* y, int cols) {
    if (cols < 0) y[0] = 0.0f;
}
