/* The topics of `otattn help`. */
#ifndef OTATTN_PROGRAM_TOPICS_H
#define OTATTN_PROGRAM_TOPICS_H

typedef struct tool_topic {
    const char *name, *summary, *text;
} tool_topic;

extern const tool_topic tool_topics[];
extern const int tool_topic_count;

#endif
