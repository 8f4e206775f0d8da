// The tables of `runnel plan`: model, machine, memory, and a row for each number of users.
#include "plan/outline.h"

#include <math.h>
#include <string.h>

#include "bench/figures.h"
#include "models/name.h"

void outline_section(const struct outline *outline, const char *title) {
    printf("\n%s%s%s\n", term_bold(outline->term->out_color), title,
           term_reset(outline->term->out_color));
}

const char *outline_bound(const struct sizing_row *row, char out[BOUND_TEXT]) {
    const struct prediction *step = &row->step;
    snprintf(out, BOUND_TEXT, "%s %.0f%%", predict_bound_name(step->bound),
             100 * step->part_ns[step->bound] / step->ns);
    return out;
}

void outline_room_note(const struct outline *outline, int most_users, int batch_tokens) {
    const int rows = 1 + outline->workload.n_draft;
    const int least = 9 * batch_tokens / (10 * rows) + 1;
    if (most_users < least) return;
    printf("  From %d user%s on, decoding leaves prompts less than a tenth of a step: TTFT grows "
           "steeply. A larger --batch-tokens (here %d) helps.\n",
           least, least == 1 ? "" : "s", batch_tokens);
}

// ---------------------------------------------------------------- text

// Without an exponent.
static const char *rate_text(double value, char out[32]) {
    snprintf(out, 32, value >= 1000 ? "%.0f" : value >= 0.001 ? "%.4g" : "%.6f", value);
    return out;
}

static const char *balance_text(double value, char out[32]) {
    snprintf(out, 32, value >= 1000 ? "%.0f" : "%.3g", value);
    return out;
}

// What the model became where its rows have no blocks of the wanted format; false: they do.
static bool format_note(const struct outline *outline, char note[160]) {
    const rn_model_info *info = rn_model_get_info(outline->model);
    const char *wanted = option_text(outline->options, OPT_FORMAT);
    const char *colon = tools_is_shape(info->path) ? strchr(info->path, ':') : NULL;
    int64_t cols = 0;
    if (colon) wanted = colon + 1;
    const char *base = wanted ? tools_format_missed(outline->model, wanted, &cols) : NULL;
    if (base)
        snprintf(note, 160,
                 "rows of %lld are no whole blocks of %s: most of the weights are %s, as llama.cpp "
                 "makes them",
                 (long long)cols, base, info->format);
    return base != NULL;
}

static void draft_print(const struct outline *outline) {
    const rn_model *draft = outline->workload.draft;
    char weights[32], type[96];
    if (!draft) return;
    const rn_model_info *info = rn_model_get_info(draft);
    printf("draft    %s, %s: weights %s\n", model_name_short(NULL, info).text,
           figure_type(info, type),
           human_bytes((double)outline->memory.draft_weight_bytes, weights));
}

static void model_print(const struct outline *outline) {
    const rn_model_info *info = rn_model_get_info(outline->model);
    const struct workload *w = &outline->workload;
    const struct tools_memory *m = &outline->memory;
    char weights[32], token[32], state[32], type[96], note[160];
    const uint64_t active = sizing_active_params(outline->model);
    printf("model    %s, %s", model_name_short(NULL, info).text, figure_type(info, type));
    if (assumed_has_experts(outline->plan)) printf(", %.1fB active", (double)active * 1e-9);
    printf(": weights %s, KV %s %s per token", human_bytes((double)m->weight_bytes, weights),
           m->kv_type, human_bytes((double)m->kv_token_bytes, token));
    if (m->state_bytes)
        printf(", state %s per sequence", human_bytes((double)m->state_bytes, state));
    putchar('\n');
    if (format_note(outline, note)) printf("format   %s\n", note);
    printf("users    %d, each with %d tokens of context: prompt %d, output %d", w->users, w->n_ctx,
           w->n_prompt, w->n_gen);
    if (w->n_shared) printf(", %d of the prompt shared", w->n_shared);
    if (w->n_draft)
        printf("; drafts of %d, %.0f%% right: %.2f tokens a step", w->n_draft, 100 * w->acceptance,
               workload_step_tokens(w));
    putchar('\n');
    draft_print(outline);
}

static void machine_print(const struct outline *outline) {
    const struct machine *m = &outline->machine;
    char memory[32], rate[32], balance[32];
    printf("machine  %s: ", m->name);
    if (m->memory) printf("%s, ", human_bytes((double)m->memory, memory));
    printf("%s GB/s", rate_text(m->bandwidth * 1e-9, rate));
    if (m->flops > 0)
        printf(", %s TFLOP/s (%s FLOP/byte at these peaks)", rate_text(m->flops * 1e-12, rate),
               balance_text(machine_balance(m), balance));
    putchar('\n');
    assumed_print(outline);
    if (m->kind == MACHINE_HERE)
        printf("limit    arithmetic, where an op takes more than 1.5 times as long as its bytes\n");
    else if (machine_ridge(m) > 0)
        printf("limit    arithmetic, for an op above %s FLOP/byte at these shares\n",
               balance_text(machine_ridge(m), balance));
}

static void group_print(const struct plan_kv_group *group, uint64_t page_bytes) {
    char bytes[32];
    const bool is_one = group->n_layer == 1;
    printf("  %d layer%s ", group->n_layer, is_one ? "" : "s");
    if (group->kind == KV_RECURRENT) {
        printf("%s a state of %s for each sequence\n", is_one ? "keeps" : "keep",
               human_bytes((double)page_bytes, bytes));
        return;
    }
    printf(is_one ? "sees " : "see ");
    if (group->kind == KV_WINDOW)
        printf("%d positions", group->window);
    else if (group->kind == KV_CHUNK)
        printf("chunks of %d positions", group->window);
    else
        printf("all positions");
    printf(": pages of %d tokens, %s\n", RN_PAGE_TOKENS, human_bytes((double)page_bytes, bytes));
}

static void bytes_print(const char *name, uint64_t bytes, const char *note) {
    char text[32];
    printf("  %-10s %10s  %s\n", name, human_bytes((double)bytes, text), note);
}

// States of all users.
static uint64_t states_of(const struct outline *outline) {
    return outline->memory.state_user_bytes * (uint64_t)outline->workload.users;
}

static void states_print(const struct outline *outline) {
    const struct tools_memory *m = &outline->memory;
    char note[160], user[32], state[32];
    if (!m->state_bytes) return;
    const bool has_two = m->state_user_bytes > m->state_bytes;
    snprintf(note, sizeof note, "%s for each user: %s",
             human_bytes((double)m->state_user_bytes, user),
             has_two ? "the running state and a checkpoint, " : "the running state");
    if (has_two)
        snprintf(note + strlen(note), sizeof note - strlen(note), "%s each",
                 human_bytes((double)m->state_bytes, state));
    bytes_print("states", states_of(outline), note);
}

// Bytes of a token in a page store: its KV, and its share of the states that are kept.
static uint64_t stored_token(const struct tools_memory *m) {
    return m->kv_token_bytes +
           (m->state_interval ? m->state_bytes / (uint64_t)m->state_interval : 0);
}

static uint64_t store_size(const struct outline *outline) {
    return (uint64_t)outline->options->value[OPT_PAGE_STORE_SIZE].integer;
}

static uint64_t store_tokens(const struct outline *outline) {
    const uint64_t token = stored_token(&outline->memory);
    return token ? store_size(outline) / token : 0;
}

static void store_print(const struct outline *outline) {
    char page[32], size[32];
    printf("  With --page-store, a page of %d tokens takes %s of disk: %s (--page-store-size) "
           "hold %llu tokens.\n",
           RN_PAGE_TOKENS,
           human_bytes((double)(RN_PAGE_TOKENS * stored_token(&outline->memory)), page),
           human_bytes((double)store_size(outline), size),
           (unsigned long long)store_tokens(outline));
}

static void step_print(const struct outline *outline) {
    const struct workload *w = &outline->workload;
    const int rows = w->users * (1 + w->n_draft);
    char note[96];
    snprintf(note, sizeof note, "buffers of a step of %d tokens%s",
             rows > w->batch_tokens ? rows : w->batch_tokens,
             outline->machine.kind == MACHINE_NONE ? "; each device below has its own" : "");
    bytes_print("step", outline->memory.step_bytes, note);
}

static uint64_t draft_bytes(const struct tools_memory *m) {
    return m->draft_weight_bytes + m->draft_step_bytes + m->draft_kv_bytes;
}

static void drafts_print(const struct outline *outline) {
    const struct tools_memory *m = &outline->memory;
    char note[160], weights[32], step[32], kv[32];
    if (!outline->workload.draft) return;
    snprintf(note, sizeof note, "the draft model: weights %s, step %s, KV %s",
             human_bytes((double)m->draft_weight_bytes, weights),
             human_bytes((double)m->draft_step_bytes, step),
             human_bytes((double)m->draft_kv_bytes, kv));
    bytes_print("draft", draft_bytes(m), note);
}

// Servers that hold all users, each on a device of its own; 0: a device does not hold one user, or
// its memory is not known.
static int replicas_of(const struct outline *outline) {
    const int most = outline->memory.most_users, users = outline->workload.users;
    return outline->machine.memory && most ? (users + most - 1) / most : 0;
}

// Two devices are no answer.
static void replicas_print(const struct outline *outline) {
    const int n = replicas_of(outline), users = outline->workload.users;
    if (!outline->machine.memory || outline->memory.fits) return;
    if (n > 1)
        printf("  A second device does not help this server: runnel runs a model on one. %d "
               "replicas hold %d users, %d each.\n",
               n, users, (users + n - 1) / n);
    else
        puts("  A second device does not help: runnel runs a model on one.");
}

static void memory_print(const struct outline *outline) {
    const struct tools_memory *m = &outline->memory;
    char note[160], user[32], shared[32], all[32];
    const bool is_cap = m->most_users == TOOLS_MOST_USERS;
    outline_section(outline, "memory");
    bytes_print("weights", m->weight_bytes, "");
    if (m->table_bytes)
        bytes_print("table", m->table_bytes, "stays in its file: a token reads one row");
    step_print(outline);
    int len = snprintf(note, sizeof note, "%s for each user",
                       human_bytes((double)(m->user_bytes - m->state_user_bytes), user));
    if (m->shared_bytes)
        snprintf(note + len, sizeof note - (size_t)len, " beside %s that all share",
                 human_bytes((double)m->shared_bytes, shared));
    bytes_print("KV", m->kv_bytes - states_of(outline), note);
    states_print(outline);
    if (m->mtp_bytes) bytes_print("mtp", m->mtp_bytes, "KV of the model's own draft block");
    drafts_print(outline);
    note[0] = '\0';
    if (outline->machine.memory)
        snprintf(note, sizeof note, "of %s, 5%% of it in reserve: %s; %s%d%s user%s fit",
                 human_bytes((double)outline->machine.memory, all),
                 m->fits ? "fits" : "does not fit", is_cap ? "" : "at most ", m->most_users,
                 is_cap ? " or more" : "", m->most_users == 1 ? "" : "s");
    bytes_print("total", m->total_bytes, note);
    replicas_print(outline);
    for (int g = 0; g < outline->plan->n_group && outline->plan->n_group > 1; g++)
        group_print(&outline->plan->group[g], m->kv.page[g]);
    if (m->state_bytes)
        printf("  A checkpoint is a state that prefixes continue from. One is counted for each "
               "user.\n"
               "  Prompts leave further ones every %d tokens, in memory that is free.\n",
               m->state_interval);
    store_print(outline);
}

// Of one user, and of as many as were asked for.
static void gain_print(const struct outline *outline) {
    const struct workload *w = &outline->workload;
    for (int i = 0; w->n_draft && i < outline->n_rows; i++) {
        const struct sizing_row *row = &outline->row[i];
        if (row->users != 1 && row->users != w->users) continue;
        printf("  Drafts, %d user%s: %.2f times the speed without", row->users,
               row->users == 1 ? "" : "s", row->draft_gain);
        if (w->draft)
            printf("; drafting takes %.3f of %.3f ms of a step.\n", row->draft_ms,
                   row->draft_ms + row->step.ns * 1e-6);
        else
            puts(". The time of drafting itself is not counted.");
    }
}

static void users_print(const struct outline *outline) {
    outline_section(outline, "decoding");
    printf("  %5s %10s %10s %9s %10s %10s %10s %10s %10s  %s\n", "users", "weights", "KV", "GFLOP",
           "FLOP/byte", "ms/token", "tokens/s", "all users", "TTFT ms", "bound by");
    for (int i = 0; i < outline->n_rows; i++) {
        const struct sizing_row *row = &outline->row[i];
        char weights[32], kv[32], bound[BOUND_TEXT];
        printf("  %5d %10s %10s %9.2f %10.2f %10.3f %10.2f %10.1f %10.1f  %s%s\n", row->users,
               human_bytes((double)row->step.cost.weight_bytes, weights),
               human_bytes((double)row->step.cost.kv_read_bytes, kv),
               (double)row->step.cost.flops * 1e-9, row->intensity, row->token_ms, row->user_ts,
               row->total_ts, row->ttft_ms, outline_bound(row, bound),
               row->fits ? "" : "; does not fit");
    }
    printf(
        "  Weights, KV and GFLOP are those of a step. TTFT is that of a prompt that arrives while "
        "the others decode.\n%s"
        "  Bound by: the largest part of a step's time. Each op has its own limit; FLOP/byte is "
        "the mean of all.\n",
        outline->memory.state_bytes
            ? "  KV includes the states of recurrent layers, which a step reads and writes.\n"
            : "");
    gain_print(outline);
    outline_room_note(outline, outline->row[outline->n_rows - 1].users,
                      outline->workload.batch_tokens);
}

// ---------------------------------------------------------------- JSON

static bool model_put(const struct outline *outline) {
    char note[160];
    const bool has_note = format_note(outline, note);
    const rn_model_info *info = rn_model_get_info(outline->model);
    const struct workload *w = &outline->workload;
    return json_put(outline->json, "model",
                    json_pack("{s:s, s:s, s:s, s:I, s:I, s:i}", "path", info->path, "architecture",
                              info->architecture, "format", info->format, "parameters",
                              (json_int_t)info->n_params, "active_parameters",
                              (json_int_t)sizing_active_params(outline->model), "layers",
                              info->n_layer)) &&
           json_put(outline->json, "workload",
                    json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f}", "users", w->users,
                              "context", w->n_ctx, "prompt_tokens", w->n_prompt, "output_tokens",
                              w->n_gen, "shared_tokens", w->n_shared, "draft_tokens", w->n_draft,
                              "acceptance", w->acceptance, "tokens_per_step",
                              workload_step_tokens(w))) &&
           json_put(json_object_get(outline->json, "model"), "format_note",
                    has_note ? json_string(note) : json_null()) &&
           json_put(json_object_get(outline->json, "workload"), "draft_model",
                    w->draft ? json_string(rn_model_get_info(w->draft)->path) : json_null());
}

// Of the device; null if runnel has none for its GPU.
static json_t *backend_pack(const struct machine *m) {
    const bool is_foreign = m->device && !m->device->backend;
    return is_foreign || !m->on.backend ? json_null() : json_string(m->on.backend);
}

static bool machine_put(const struct outline *outline) {
    static const char *const kinds[] = {"none", "measured", "device", "given"};
    const struct machine *m = &outline->machine;
    return json_put(outline->json, "machine",
                    json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "name", m->name, "kind",
                              kinds[m->kind], "memory_bytes", (json_int_t)m->memory, "bandwidth",
                              m->bandwidth, "flops", m->flops, "bandwidth_share",
                              m->bandwidth_share, "flops_share", m->math_share,
                              "balance_flop_per_byte", machine_balance(m))) &&
           json_put(json_object_get(outline->json, "machine"), "assumed_balance_flop_per_byte",
                    machine_ridge(m) > 0 ? json_real(machine_ridge(m)) : json_null()) &&
           json_put(json_object_get(outline->json, "machine"), "backend", backend_pack(m)) &&
           json_put(json_object_get(outline->json, "machine"), "busy_share",
                    m->kind == MACHINE_HERE && m->busy_share >= 0 ? json_real(m->busy_share)
                                                                  : json_null());
}

static bool memory_put(const struct outline *outline) {
    const struct tools_memory *m = &outline->memory;
    json_t *memory =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "kv_type", m->kv_type,
                  "weight_bytes", (json_int_t)m->weight_bytes, "step_bytes",
                  (json_int_t)m->step_bytes, "kv_token_bytes", (json_int_t)m->kv_token_bytes,
                  "kv_user_bytes", (json_int_t)(m->user_bytes - m->state_user_bytes),
                  "kv_shared_bytes", (json_int_t)m->shared_bytes, "kv_bytes",
                  (json_int_t)(m->kv_bytes - states_of(outline)), "total_bytes",
                  (json_int_t)m->total_bytes, "reserve_bytes", (json_int_t)m->reserve_bytes);
    const bool is_known = outline->machine.memory > 0;
    const bool is_cap = m->most_users == TOOLS_MOST_USERS; // more may fit
    return json_put(memory, "state_bytes", json_integer((json_int_t)m->state_bytes)) &&
           json_put(memory, "state_user_bytes", json_integer((json_int_t)m->state_user_bytes)) &&
           json_put(memory, "states_bytes", json_integer((json_int_t)states_of(outline))) &&
           json_put(memory, "state_interval", json_integer(m->state_interval)) &&
           json_put(memory, "mtp_bytes", json_integer((json_int_t)m->mtp_bytes)) &&
           json_put(memory, "draft_bytes", json_integer((json_int_t)draft_bytes(m))) &&
           json_put(memory, "table_bytes", json_integer((json_int_t)m->table_bytes)) &&
           json_put(memory, "store_bytes", json_integer((json_int_t)store_size(outline))) &&
           json_put(memory, "store_tokens", json_integer((json_int_t)store_tokens(outline))) &&
           json_put(memory, "fits", is_known ? json_boolean(m->fits) : json_null()) &&
           json_put(memory, "most_users", is_known ? json_integer(m->most_users) : json_null()) &&
           json_put(memory, "replicas",
                    replicas_of(outline) ? json_integer(replicas_of(outline)) : json_null()) &&
           json_put(memory, "step_tokens", json_integer(outline->workload.batch_tokens)) &&
           json_put(memory, "most_users_is_cap", is_known ? json_boolean(is_cap) : json_null()) &&
           json_put(outline->json, "memory", memory);
}

// ms of a step, of each part.
static json_t *parts_pack(const struct prediction *step) {
    json_t *parts = json_object();
    for (int i = 0; parts && i < BOUND_COUNT; i++)
        json_object_set_new(parts, predict_bound_name((enum predict_bound)i),
                            json_real(step->part_ns[i] * 1e-6));
    return parts;
}

static json_t *row_pack(const struct outline *outline, const struct sizing_row *row) {
    const struct cost *cost = &row->step.cost;
    json_t *fits = outline->machine.memory ? json_boolean(row->fits) : json_null();
    return json_pack("{s:i, s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:o}",
                     "users", row->users, "fits", fits, "weight_bytes",
                     (json_int_t)cost->weight_bytes, "kv_bytes", (json_int_t)cost->kv_read_bytes,
                     "flops", (json_int_t)cost->flops, "flop_per_byte", row->intensity, "step_ms",
                     row->step.ns * 1e-6, "ms_per_token", row->token_ms, "tokens_per_s",
                     row->user_ts, "total_tokens_per_s", row->total_ts, "ttft_ms", row->ttft_ms,
                     "draft_ms", row->draft_ms, "draft_gain", row->draft_gain, "bound",
                     predict_bound_name(row->step.bound), "parts_ms", parts_pack(&row->step));
}

static bool rows_put(const struct outline *outline) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < outline->n_rows; i++)
        rows = json_append(rows, row_pack(outline, &outline->row[i]), true);
    return json_put(outline->json, "rows", rows);
}

// ---------------------------------------------------------------- both

int outline_machine(const struct outline *outline) {
    if (!outline->json) {
        machine_print(outline);
        return APP_OK;
    }
    return machine_put(outline) && assumed_put(outline) ? APP_OK
                                                        : app_fail(APP_FAILED, "out of memory");
}

int outline_print(const struct outline *outline) {
    const bool has_machine = outline->machine.kind != MACHINE_NONE;
    if (outline->json) {
        const bool ok = model_put(outline) && memory_put(outline) && assumed_put(outline) &&
                        (!has_machine || (machine_put(outline) && rows_put(outline)));
        return ok ? APP_OK : app_fail(APP_FAILED, "out of memory");
    }
    model_print(outline);
    if (has_machine)
        machine_print(outline);
    else
        assumed_print(outline);
    memory_print(outline);
    if (has_machine) users_print(outline);
    return APP_OK;
}
