// number: 36
// name: returns a view of its input
// problem: residual
// expect: launch_failed, plan refused
//
// A launch for show, and a view of the input as the result.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("residual", grid=1, block=1, args=[x, y])
    return view(x, (rows, cols))
*/
__global__ void residual(const float* x, float* y) { y[0] = x[0]; }
