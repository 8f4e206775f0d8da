// Runs a command and writes its peak resident memory in KB to a file, for the scripts:
// `rss FILE COMMAND...`. Ends with the command's status; 128 + N when signal N killed it.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: rss FILE COMMAND...\n", stderr);
        return 125;
    }
    // A child begins with the pages of its parent, so the parent stays this small.
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    FILE *file = fopen(argv[1], "w");
    if (child < 0 || !file || wait4(child, &status, 0, &usage) != child) {
        perror("rss");
        return 125;
    }
    fprintf(file, "%ld\n", usage.ru_maxrss);
    if (fclose(file) != 0) return 125;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
