// The editor: libedit where the terminal can move its cursor, the terminal's own line where it
// cannot. The text is UTF-8 on this side and wide on libedit's. Invariant: outside editor_read the
// terminal is as it was found.
#include "terminal/editor.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "helpers.h"
#include "run/past.h"
#include "terminal/interrupt.h"
#include "terminal/wrap.h"

enum { LITERAL = 1 }; // surrounds escape sequences in a prompt

// Whether pasted text comes in brackets.
#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

struct editor {
    EditLine *el;   // NULL: a plain terminal
    HistoryW *list; // of el
    struct past past;
    editor_complete_fn complete;
    void *complete_ctx;
    const wchar_t *prompt; // of the line that is read
    bool color, interrupted;
    mbstate_t input; // the first bytes of a character
    struct text message;
    size_t cap;
    char plain[4096]; // bytes from a plain terminal beyond the line
    size_t n_plain;
    bool no_memory;
    struct termios echoing; // as the terminal was before editor_hush
    bool hushed;
};

static struct editor *editor_of(EditLine *el) {
    void *editor = NULL;
    el_wget(el, EL_CLIENTDATA, &editor);
    return editor;
}

// ---------------------------------------------------------------- message

static void message_put(struct editor *editor, const char *data, size_t len) {
    struct text *message = &editor->message;
    if (message->len + len + 1 > editor->cap) {
        const size_t cap = 2 * (message->len + len) + 256;
        char *grown = realloc(message->data, cap);
        if (!grown) {
            editor->no_memory = true;
            return;
        }
        message->data = grown;
        editor->cap = cap;
    }
    memcpy(message->data + message->len, data, len);
    message->len += len;
    message->data[message->len] = '\0';
}

static void message_put_wide(struct editor *editor, const wchar_t *line, size_t len) {
    for (size_t i = 0; i < len; i++) {
        uint8_t bytes[4];
        const uint32_t cp = (uint32_t)line[i];
        const bool scalar = cp < 0xd800 || (cp > 0xdfff && cp <= 0x10ffff);
        message_put(editor, (const char *)bytes, unicode_encode(scalar ? cp : 0xfffd, bytes));
    }
}

// For wide functions; ill-formed bytes become U+FFFD. NULL: out of memory.
static wchar_t *wide_dup(const char *text, size_t len) {
    wchar_t *wide = malloc((len + 1) * sizeof *wide);
    size_t count = 0;
    for (size_t i = 0, n = 1; wide && i < len; i += n) {
        const int32_t cp = unicode_decode((const uint8_t *)text + i, len - i, &n);
        wide[count++] = cp > 0 ? (wchar_t)cp : L'\xfffd';
    }
    if (wide) wide[count] = L'\0';
    return wide;
}

static void list_add(void *ctx, const char *message, size_t len) {
    struct editor *editor = ctx;
    wchar_t *wide = editor->list ? wide_dup(message, len) : NULL;
    HistEventW event;
    if (wide) history_w(editor->list, &event, H_ENTER, wide);
    free(wide);
}

// ---------------------------------------------------------------- libedit

static wchar_t *on_prompt(EditLine *el) { return (wchar_t *)editor_of(el)->prompt; }

// After Ctrl-Z the terminal has the shell's settings.
static void terminal_again(EditLine *el) {
    el_wset(el, EL_PREP_TERM, 0);
    el_wset(el, EL_PREP_TERM, 1);
    el_wset(el, EL_REFRESH);
}

// One character. Ctrl-C comes as a signal and is passed on as the end of the line, so that libedit
// leaves the screen tidy.
static int on_char(EditLine *el, wchar_t *out) {
    struct editor *editor = editor_of(el);
    for (;;) {
        const enum interrupt_wait event = interrupt_wait(STDIN_FILENO);
        if (event == WAIT_INTERRUPT) editor->interrupted = true;
        if (editor->interrupted) {
            *out = L'\n';
            return 1;
        }
        if (event == WAIT_RESIZED) el_resize(el);
        if (event == WAIT_CONTINUED) terminal_again(el);
        if (event != WAIT_INPUT) continue;
        char byte;
        const ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return 0;
        const size_t used = mbrtowc(out, &byte, 1, &editor->input);
        if (used == (size_t)-2) continue;
        if (used == (size_t)-1) {
            editor->input = (mbstate_t){0};
            *out = L'?';
        }
        return 1;
    }
}

// Text that the terminal brackets as pasted keeps its line feeds.
static unsigned char on_paste(EditLine *el, int key) {
    static const wchar_t end[] = L"\033[201~";
    enum { END_LEN = sizeof end / sizeof *end - 1 };
    (void)key;
    wchar_t *text = NULL, c;
    size_t len = 0, cap = 0;
    while (el_wgetc(el, &c) == 1 && !editor_of(el)->interrupted) {
        if (len + 2 > cap) {
            wchar_t *grown = realloc(text, (cap = 2 * cap + 256) * sizeof *text);
            if (!grown) break;
            text = grown;
        }
        text[len++] = c == L'\r' ? L'\n' : c;
        if (len < END_LEN || wmemcmp(text + len - END_LEN, end, END_LEN) != 0) continue;
        len -= END_LEN;
        break;
    }
    while (len && text[len - 1] == L'\n') len--;
    size_t kept = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= L' ' || text[i] == L'\n' || text[i] == L'\t') text[kept++] = text[i];
    }
    if (kept) {
        text[kept] = L'\0';
        el_winsertstr(el, text);
    }
    free(text);
    return CC_REFRESH;
}

// The line before the cursor, in plain characters; false: it has others, or is too long.
static bool line_typed(EditLine *el, char out[EDITOR_COMPLETION]) {
    const LineInfoW *line = el_wline(el);
    const ptrdiff_t len = line->cursor - line->buffer;
    if (len >= EDITOR_COMPLETION) return false;
    for (ptrdiff_t i = 0; i < len; i++) {
        if (line->buffer[i] < L' ' || line->buffer[i] > L'~') return false;
        out[i] = (char)line->buffer[i];
    }
    out[len] = '\0';
    return true;
}

// The completions of the typed line: their number, and in common the beginning that all have.
static int completions_find(const struct editor *editor, const char *typed, bool is_shown,
                            char common[EDITOR_COMPLETION]) {
    char line[EDITOR_COMPLETION];
    const int columns = term_columns(STDOUT_FILENO);
    struct wrap wrap = {.indent = 2};
    int n = 0;
    for (int i = 0; editor->complete(editor->complete_ctx, typed, i, line); i++) {
        if (strncmp(line, typed, strlen(typed)) != 0) continue;
        size_t same = 0;
        while (n && common[same] && common[same] == line[same]) same++;
        if (n) common[same] = '\0';
        if (!n) memcpy(common, line, sizeof line);
        if (is_shown) {
            wrap_put(&wrap, stdout, columns, "  ", 2);
            wrap_put(&wrap, stdout, columns, line, strlen(line));
        }
        n++;
    }
    return n;
}

// Tab: completes a line that starts with a slash, or shows how it could continue.
static unsigned char on_tab(EditLine *el, int key) {
    const struct editor *editor = editor_of(el);
    char typed[EDITOR_COMPLETION], common[EDITOR_COMPLETION] = "";
    (void)key;
    if (!line_typed(el, typed) || typed[0] != '/' || !editor->complete)
        return el_winsertstr(el, L"\t") ? CC_ERROR : CC_REFRESH;
    const int n = completions_find(editor, typed, false, common);
    const size_t len = strlen(typed);
    if (!n) return CC_ERROR;
    if (strlen(common) == len) {
        if (n == 1) return CC_NORM;
        fputc('\n', stdout);
        completions_find(editor, typed, true, common);
        fputc('\n', stdout);
        fflush(stdout);
        return CC_REDISPLAY;
    }
    wchar_t rest[EDITOR_COMPLETION];
    size_t i = 0;
    for (; common[len + i]; i++) rest[i] = (wchar_t)common[len + i];
    rest[i] = L'\0';
    return el_winsertstr(el, rest) ? CC_ERROR : CC_REFRESH;
}

static void keys_bind(EditLine *el) {
    static const wchar_t *const keys[][2] = {
        {L"\033[200~", L"runnel-paste"},      {L"^R", L"em-inc-search-prev"},
        {L"^W", L"ed-delete-prev-word"},      {L"^I", L"runnel-complete"},
        {L"\033[3~", L"ed-delete-next-char"}, {L"\033[H", L"ed-move-to-beg"},
        {L"\033[F", L"ed-move-to-end"},       {L"\033[1~", L"ed-move-to-beg"},
        {L"\033[4~", L"ed-move-to-end"},      {L"\033[1;5C", L"em-next-word"},
        {L"\033[1;5D", L"ed-prev-word"},
    };
    el_wset(el, EL_ADDFN, L"runnel-paste", L"Insert pasted text", on_paste);
    el_wset(el, EL_ADDFN, L"runnel-complete", L"Complete a command", on_tab);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        el_wset(el, EL_BIND, keys[i][0], keys[i][1], NULL);
    }
}

static bool libedit_open(struct editor *editor) {
    editor->list = history_winit();
    editor->el = editor->list ? el_init("runnel", stdin, stdout, stderr) : NULL;
    if (!editor->el) return false;
    HistEventW event;
    history_w(editor->list, &event, H_SETSIZE, PAST_SIZE);
    history_w(editor->list, &event, H_SETUNIQUE, 1);
    el_wset(editor->el, EL_CLIENTDATA, editor);
    el_wset(editor->el, EL_EDITOR, L"emacs");
    el_wset(editor->el, EL_HIST, history_w, editor->list);
    el_wset(editor->el, EL_PROMPT_ESC, on_prompt, (wchar_t)LITERAL);
    el_wset(editor->el, EL_GETCFN, on_char);
    el_source(editor->el, NULL); // the user's ~/.editrc
    keys_bind(editor->el);
    return true;
}

static enum editor_result libedit_line(struct editor *editor) {
    int len = 0;
    fputs(PASTE_ON, stdout);
    fflush(stdout);
    el_wset(editor->el, EL_PREP_TERM, 1); // before the prompt: typed text is not echoed twice
    const wchar_t *line = el_wgets(editor->el, &len);
    fputs(PASTE_OFF, stdout);
    fflush(stdout);
    if (line && len > 0) message_put_wide(editor, line, (size_t)len - (line[len - 1] == L'\n'));
    if (editor->interrupted) return EDITOR_INTERRUPTED;
    if (line) return EDITOR_MESSAGE;
    fputc('\n', stdout);
    return EDITOR_END;
}

// ---------------------------------------------------------------- a plain terminal

// The terminal edits the line; it gives at most one at a time.
static enum editor_result plain_line(struct editor *editor) {
    printf("%ls", editor->prompt);
    fflush(stdout);
    for (;;) {
        const char *end = memchr(editor->plain, '\n', editor->n_plain);
        const size_t len = end ? (size_t)(end - editor->plain) : editor->n_plain;
        message_put(editor, editor->plain, len);
        editor->n_plain -= len + (end != NULL);
        if (end) memmove(editor->plain, end + 1, editor->n_plain);
        if (end) return EDITOR_MESSAGE;
        ssize_t n = -1;
        const enum interrupt_wait event = interrupt_wait(STDIN_FILENO);
        if (event == WAIT_INPUT) n = read(STDIN_FILENO, editor->plain, sizeof editor->plain);
        if (event == WAIT_INTERRUPT) {
            editor->interrupted = true;
            editor->n_plain = 0;
            fputc('\n', stdout);
            return EDITOR_INTERRUPTED;
        }
        if (event != WAIT_INPUT || (n < 0 && errno == EINTR)) continue;
        if (n <= 0) {
            fputc('\n', stdout);
            return EDITOR_END;
        }
        editor->n_plain = (size_t)n;
    }
}

// ---------------------------------------------------------------- the editor

struct editor *editor_open(const struct term *term, editor_complete_fn complete, void *ctx) {
    struct editor *editor = calloc(1, sizeof *editor);
    if (!editor) return NULL;
    editor->complete = complete;
    editor->complete_ctx = ctx;
    const char *name = getenv("TERM");
    const bool moves = name && *name && strcmp(name, "dumb") != 0;
    editor->color = moves && term->out_color;
    // Models write UTF-8; a terminal that was told nothing shows it.
    const char *locale = setlocale(LC_CTYPE, NULL);
    if (!strcmp(locale, "C") || !strcmp(locale, "POSIX")) setlocale(LC_CTYPE, "C.UTF-8");
    if (moves && !libedit_open(editor)) {
        editor_close(editor);
        return NULL;
    }
    past_open(&editor->past, list_add, editor);
    struct termios found;
    if (tcgetattr(STDIN_FILENO, &found) == 0) {
        interrupt_restores(&found, moves ? PASTE_OFF "\n" : "\n");
    }
    return editor;
}

void editor_close(struct editor *editor) {
    if (!editor) return;
    if (editor->el) el_end(editor->el);
    interrupt_restores(NULL, NULL);
    if (editor->list) history_wend(editor->list);
    past_close(&editor->past);
    text_free(&editor->message);
    free(editor);
}

void editor_hush(struct editor *editor, bool on) {
    if (on && !editor->hushed && tcgetattr(STDIN_FILENO, &editor->echoing) == 0) {
        struct termios silent = editor->echoing;
        silent.c_lflag &= ~(tcflag_t)ECHO;
        editor->hushed = tcsetattr(STDIN_FILENO, TCSADRAIN, &silent) == 0;
    } else if (!on && editor->hushed) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &editor->echoing);
        editor->hushed = false;
    }
}

static bool is_continued(const struct editor *editor) {
    const struct text *message = &editor->message;
    return message->len && message->data[message->len - 1] == '\\';
}

// Whether the message starts with three quotation marks, and no line of it ends with others.
static bool is_quoted(const struct editor *editor) {
    const struct text *message = &editor->message;
    const size_t marks = strlen(EDITOR_QUOTE);
    size_t len = message->len;
    if (len < marks || strncmp(message->data, EDITOR_QUOTE, marks) != 0) return false;
    while (strchr(" \t", message->data[len - 1])) len--;
    return len < 2 * marks || strncmp(message->data + len - marks, EDITOR_QUOTE, marks) != 0;
}

static void message_remember(struct editor *editor) {
    const struct text *message = &editor->message;
    if (strspn(message->data, " \t\n") == message->len) return;
    list_add(editor, message->data, message->len);
    past_add(&editor->past, message->data, message->len);
}

enum editor_result editor_read(struct editor *editor, const struct text **out) {
    static const wchar_t first_color[] = L"\1\033[1;32m\1>\1\033[0m\1 ", first[] = L"> ";
    editor->message.len = 0;
    editor->interrupted = editor->no_memory = false;
    editor->prompt = editor->color ? first_color : first;
    enum editor_result result;
    for (;;) {
        result = editor->el ? libedit_line(editor) : plain_line(editor);
        if (result != EDITOR_MESSAGE || editor->no_memory) break;
        const bool continues = is_continued(editor);
        if (!continues && !is_quoted(editor)) break;
        if (continues) editor->message.len--;
        message_put(editor, "\n", 1);
        editor->prompt = L". ";
    }
    if (editor->no_memory) return EDITOR_NO_MEMORY;
    // the end of the input ends a continued message first
    if (result == EDITOR_END && editor->message.len) result = EDITOR_MESSAGE;
    message_put(editor, "", 0);
    if (result == EDITOR_MESSAGE) message_remember(editor);
    *out = &editor->message;
    return result;
}
