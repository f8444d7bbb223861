// number: 36
// name: returns its input
// problem: residual
// expect: launch_failed, plan refused
//
// No kernel at all.
/* plan
def plan(x):
    return x
*/
