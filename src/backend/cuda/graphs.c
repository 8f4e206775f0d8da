// Recorded steps: the launches of a step are recorded as a graph, and one call hands them over.
//
// A graph belongs to a shape, which says all that launches depend on. Numbers of rows are rounded
// up in it (cuda_rows_class), so that a stream that joins or leaves seldom makes another shape. A
// recording takes about a millisecond, so only a shape that comes again is recorded. The graph that
// was not used for longest makes way. Steps with parts of prompts are never recorded: they are long
// beside their launches, and the first use of a graph takes the device milliseconds.
#include <string.h>

#include "backend/cuda/cuda.h"

// Rows of a launch for n rows of a step. Rows beyond the step's are padding: products compute them
// in vain, other kernels leave them out. `most` bounds the memory.
int cuda_rows_class(int n, int most) {
    const int to = n <= SMALL_ROWS ? 1 : n <= 128 ? 8 : n <= GRAPH_ROWS ? 16 : 1;
    const int all = (n + to - 1) / to * to;
    return all < most ? all : most;
}

static bool is_same(const struct cuda_shape *a, const struct cuda_shape *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static struct cuda_graph *graph_find(struct cuda_graphs *g, const struct cuda_shape *shape) {
    for (int i = 0; i < N_GRAPHS; i++)
        if (g->graph[i].exec && is_same(&g->graph[i].shape, shape)) return &g->graph[i];
    return NULL;
}

// Whether the shape was seen before, among the last ones without a graph. Now it was.
static bool shape_note(struct cuda_graphs *g, const struct cuda_shape *shape) {
    for (int i = 0; i < N_GRAPHS; i++)
        if (is_same(&g->seen[i], shape)) return true;
    g->seen[g->next_seen] = *shape;
    g->next_seen = (g->next_seen + 1) % N_GRAPHS;
    return false;
}

static cudaError_t graph_record(struct cuda_backend *b, const struct cuda_shape *shape,
                                struct cuda_graph *out) {
    cudaGraph_t graph = NULL;
    cudaError_t code = cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal);
    if (code) return code;
    code = cuda_launch_step(b, shape, NULL);
    const cudaError_t ended = cudaStreamEndCapture(b->stream, &graph);
    if (!code) code = ended;
    if (!code) code = cudaGraphInstantiate(&out->exec, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (code) {
        out->exec = NULL;
        return code;
    }
    out->shape = *shape;
    b->graphs.n_recorded++;
    return cudaSuccess;
}

// The place that was not used for longest, empty.
static cudaError_t graph_place(struct cuda_graphs *g, struct cuda_graph **out) {
    struct cuda_graph *oldest = &g->graph[0];
    for (int i = 1; i < N_GRAPHS; i++)
        if (g->graph[i].used < oldest->used) oldest = &g->graph[i];
    const cudaError_t code = oldest->exec ? cudaGraphExecDestroy(oldest->exec) : cudaSuccess;
    *oldest = (struct cuda_graph){0};
    *out = oldest;
    return code;
}

// The graph of the shape; NULL: it has none, and gets none now. A recording that fails, for want of
// memory, is the last one: steps run without. A launch at fault fails there too.
static struct cuda_graph *graph_of(struct cuda_backend *b, const struct cuda_shape *shape) {
    struct cuda_graphs *g = &b->graphs;
    if (shape->n_tokens > GRAPH_ROWS || shape->n_part[0][PART_MANY] > 0 ||
        shape->n_part[1][PART_MANY] > 0)
        return NULL;
    struct cuda_graph *graph = graph_find(g, shape);
    if (graph || g->is_full || !shape_note(g, shape)) return graph;
    cudaError_t code = graph_place(g, &graph);
    if (!code) code = graph_record(b, shape, graph);
    if (!code) return graph;
    cudaGetLastError(); // a later call must not report it again
    g->is_full = true;
    return NULL;
}

cudaError_t cuda_graph_run(struct cuda_backend *b, const struct cuda_shape *shape) {
    struct cuda_graph *graph = graph_of(b, shape);
    b->graphs.n_steps++;
    if (!graph) return cuda_launch_step(b, shape, NULL);
    graph->used = b->graphs.n_steps;
    b->graphs.n_replayed++;
    return cudaGraphLaunch(graph->exec, b->stream);
}

void cuda_graphs_free(struct cuda_graphs *g) {
    for (int i = 0; i < N_GRAPHS; i++)
        if (g->graph[i].exec) cudaGraphExecDestroy(g->graph[i].exec);
}
