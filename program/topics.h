/* The topics of `otattn help`. */
#ifndef OTATTN_PROGRAM_TOPICS_H
#define OTATTN_PROGRAM_TOPICS_H

typedef struct cli_topic {
    const char *name, *summary, *text;
} cli_topic;

extern const cli_topic cli_topics[];
extern const int cli_topic_count;

#endif
