// Ollama's API: /api/chat and /api/generate (ollama.c, their requests in ollama_input.c),
// /api/embed (ollama_embed.c), and the routes about models (ollama_models.c).
#ifndef RN_SERVER_OLLAMA_H
#define RN_SERVER_OLLAMA_H

#include "chat_messages.h"
#include "generation.h"

// The time in RFC 3339 with nanoseconds, without quotes. seconds, ns: since 1970.
void ollama_time_put(int64_t seconds, long ns, struct jbuf *out);
// {"model":"NAME", as the request names the model.
void ollama_model_put(struct call *call, struct jbuf *out);
// ,"total_duration":...,"load_duration":... of a call that is about to be answered.
void ollama_durations_put(const struct call *call, struct jbuf *out);

// --- requests; workers only; false: refused ---

// The fields that a request with an empty prompt has, too: think, keep_alive.
bool ollama_fields(struct call *call, const json_t *body);
// How long the model is to stay loaded behind the request: keep_alive.
struct served_stay ollama_stay(const json_t *body);
// Whether a request without a prompt asks for the model to be unloaded: keep_alive is 0.
bool ollama_unloads(const json_t *body);
// The same for a call of any route; of several models it is not bound to one then.
bool ollama_dismisses(const struct call *call, const json_t *body);
void ollama_dismissed(struct call *call); // writes the answer to it; I/O thread
// The conversation of /api/chat. There is nothing to free where it is refused.
bool ollama_messages(struct call *call, const json_t *body, struct chat_messages *out);
// The prompt of /api/generate, which becomes the generation's. raw: it is taken as it is.
bool ollama_prompt(struct call *call, const json_t *body, struct generation *generation, bool raw);

#endif
