/* test_files.c: program/files/files.h: every rule of .npy, .npz and .safetensors with a file that breaks
 * it, cut and altered files, limits, special files, and outputs that appear whole or not at all.
 *
 * With arguments it is no test but a small program around the same calls, for
 * tests/python/program/test_files.py:
 *   --copy [-f] SPEC OUT | --pack [-f] OUT SPEC... | --list PATH | --metadata PATH KEY */
#define _GNU_SOURCE
#include "files_support.h"

#include <time.h>

#include "program/files/files_formats.h"
#include "src/base/program/system_program.h"

/* ---- round trips ---- */

/* Once Ctrl-C has come nothing is read, converted or written, and no file has a name. */
static void test_an_interrupt_ends_files(void **state) {
    (void)state;
    static int interrupted;
    enum { COUNT = 3 << 20 };
    static double many[COUNT];
    static float narrow[COUNT];
    const char *const paths[] = {"a.npy", "a.npz:a", "a.safetensors"};
    const cli_array array = array_of(many, OTA_F64, "a", 2, 3, COUNT / 3);
    write_file("a.npy", &array, 1);
    write_file("a.npz", &array, 1);
    write_file("a.safetensors", &array, 1);
    ota_program_catch_interrupts(&interrupted);
    interrupted = 1;
    cli_error error = {0};
    for (size_t k = 0; k < 3; k++) refuse(paths[k], CLI_EXIT_INTERRUPTED, "interrupted");
    expect(cli_convert_array(&array, narrow, OTA_F32, &error), &error, CLI_EXIT_INTERRUPTED,
           "interrupted");
    const char *const outputs[] = {"b.npy", "b.npz", "b.safetensors"};
    for (size_t k = 0; k < 3; k++) {
        cli_output *output;
        assert_int_equal(cli_output_begin(outputs[k], true, &output, &error), 0);
        expect(cli_write_arrays(output, &array, 1, &error), &error, CLI_EXIT_INTERRUPTED,
               "interrupted");
        cli_output_abort(output);
    }
    assert_int_equal(count_files(), 3);
    interrupted = 0;
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    cli_array back;
    assert_int_equal(cli_read_array("a.npz:a", NULL, &back, &error), 0);
    cli_array_free(&back);
}

static void test_round_trips(void **state) {
    (void)state;
    cli_array arrays[PACKED];
    packed_arrays(arrays);
    write_file("many.npz", arrays, PACKED);
    write_file("many.safetensors", arrays, PACKED);
    for (int i = 0; i < PACKED; i++) {
        char spec[64];
        write_file("one.npy", &arrays[i], 1);
        read_back("one.npy", &arrays[i]);
        snprintf(spec, sizeof spec, "many.npz:%s", arrays[i].name);
        read_back(spec, &arrays[i]);
        snprintf(spec, sizeof spec, "many.npz:%s.npy", arrays[i].name);
        read_back(spec, &arrays[i]);
        snprintf(spec, sizeof spec, "many.safetensors:%s", arrays[i].name);
        read_back(spec, &arrays[i]);
    }
    cli_array none = array_of(NULL, OTA_F32, "none", 2, 0, 5),
              single = array_of(numbers, OTA_F64, "x", 0, 0, 0);
    const char *const paths[] = {"a.npy", "a.npz", "a.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        write_file(paths[i], &none, 1);
        read_back(paths[i], &none);
        write_file(paths[i], &single, 1);
        read_back(paths[i], &single);
    }
    cli_array brain = array_of(halves, OTA_BF16, "b", 1, 3, 0);
    write_file("b.safetensors", &brain, 1);
    read_back("b.safetensors:b", &brain);
}

static void test_bfloat16_has_no_npy(void **state) {
    (void)state;
    cli_array brain = array_of(halves, OTA_BF16, "b", 1, 3, 0);
    const char *const paths[] = {"b.npy", "b.npz"};
    for (size_t i = 0; i < 2; i++) {
        cli_output *output;
        cli_error error = {0};
        assert_int_equal(cli_output_begin(paths[i], false, &output, &error), 0);
        int code = cli_write_arrays(output, &brain, 1, &error);
        expect(code, &error, CLI_EXIT_USAGE, "bfloat16");
        cli_output_abort(output);
    }
    assert_int_equal(count_files(), 0);
}

static void test_listing_and_names(void **state) {
    (void)state;
    cli_array arrays[PACKED];
    cli_listing listing;
    cli_error error = {0};
    packed_arrays(arrays);
    const char *const paths[] = {"many.npz", "many.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        write_file(paths[i], arrays, PACKED);
        assert_int_equal(cli_list_arrays(paths[i], NULL, &listing, &error), 0);
        assert_int_equal(listing.count, PACKED);
        for (int k = 0; k < PACKED; k++) {
            assert_string_equal(listing.entries[k].name, arrays[k].name);
            assert_int_equal(listing.entries[k].type, arrays[k].type);
            assert_int_equal(listing.entries[k].rank, arrays[k].rank);
            assert_int_equal(listing.entries[k].shape[0], arrays[k].shape[0]);
        }
        cli_listing_free(&listing);
        cli_array array;
        int code = cli_read_array(paths[i], NULL, &array, &error);
        expect(code, &error, CLI_EXIT_USAGE, "holds 4 arrays and none was named");
        assert_non_null(strstr(error.hint, "scores, half, lengths, mask \xC3\xA9"));
        char spec[64];
        snprintf(spec, sizeof spec, "%s:\x1b[2J\xff", paths[i]);
        code = cli_read_array(spec, NULL, &array, &error);
        expect(code, &error, CLI_EXIT_USAGE, "holds no array called \"?[2J?\"");
        snprintf(spec, sizeof spec, "%s:", paths[i]);
        refuse(spec, CLI_EXIT_USAGE, "holds no array called \"\"");
    }
}

/* More names than a hint has room for, and a name that alone is too long for it. */
static void test_hints_of_many_names(void **state) {
    (void)state;
    enum { MANY = 40 };
    static cli_array arrays[MANY];
    for (int k = 0; k < MANY; k++) {
        char name[16];
        snprintf(name, sizeof name, "number-%02d", k);
        arrays[k] = array_of(numbers, OTA_F64, name, 1, 2, 0);
    }
    cli_array array;
    cli_error error = {0};
    write_file("many.npz", arrays, MANY);
    int code = cli_read_array("many.npz", NULL, &array, &error);
    expect(code, &error, CLI_EXIT_USAGE, "holds 40 arrays and none was named");
    assert_non_null(strstr(error.hint, ": number-00, number-01, "));
    assert_non_null(strstr(error.hint, ", number-17 and 22 more"));
    memset(arrays[0].name, 'n', 300);
    write_file("long.npz", arrays, 2);
    code = cli_read_array("long.npz:none", NULL, &array, &error);
    expect(code, &error, CLI_EXIT_USAGE, "holds no array called \"none\"");
    assert_string_equal(error.hint, "name one with FILE:NAME: 2 more");
}

static void test_names_with_colons_and_dots(void **state) {
    (void)state;
    cli_array arrays[2] = {array_of(numbers, OTA_F64, "a:b.npz:c", 1, 2, 0),
                           array_of(numbers + 2, OTA_F64, "a.npy", 1, 2, 0)};
    write_file("x:y.npz", arrays, 2);
    write_file("x:y.safetensors", arrays, 2);
    read_back("x:y.npz:a:b.npz:c", &arrays[0]);
    read_back("x:y.npz:a.npy", &arrays[1]);
    read_back("x:y.safetensors:a:b.npz:c", &arrays[0]);
    arrays[1] = array_of(numbers + 4, OTA_F64, "a", 1, 2, 0);
    write_file("whole.npz", arrays, 2);
    read_back("whole.npz:a.npy", &arrays[1]);
    refuse("whole.npz:b.npy", CLI_EXIT_USAGE, "holds no array called \"b.npy\"");
    arrays[0] = array_of(numbers, OTA_F64, "a.safetensors:b", 1, 2, 0);
    write_file("named.npz", arrays, 2);
    read_back("named.npz:a.safetensors:b", &arrays[0]);
    /* A path longer than sentences show. */
    char path[224], spec[240];
    snprintf(path, sizeof path, "%0200d.npz", 1);
    snprintf(spec, sizeof spec, "%s:a", path);
    arrays[0] = array_of(numbers, OTA_F64, "a", 1, 2, 0);
    write_file(path, arrays, 1);
    read_back(spec, &arrays[0]);
}

static void test_metadata(void **state) {
    (void)state;
    size_t size = 200000;
    char *longest = malloc(size + 1), *value;
    memset(longest, 'x', size);
    longest[size] = '\0';
    cli_metadata pairs[] = {
        {"sentence", "na\xC3\xAFve \"quoted\"\n"}, {"empty", ""}, {"long", longest}};
    cli_array array = array_of(numbers, OTA_F64, "a", 1, 6, 0);
    cli_output *output;
    cli_error error = {0};
    assert_int_equal(cli_output_begin("m.safetensors", false, &output, &error), 0);
    assert_int_equal(cli_write_safetensors(output, &array, 1, pairs, 3, &error), 0);
    assert_int_equal(cli_output_commit(output, &error), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            cli_safetensors_metadata("m.safetensors", pairs[i].key, NULL, &value, &error), 0);
        assert_string_equal(value, pairs[i].value);
        free(value);
    }
    assert_int_equal(cli_safetensors_metadata("m.safetensors", "none", NULL, &value, &error), 0);
    assert_null(value);
    read_back("m.safetensors", &array);
    free(longest);
}

/* ---- npy: one row, one rule ---- */

static void put_npy(const char *path, int major, const char *header, size_t data) {
    unsigned char bytes[1024] = "\x93NUMPY";
    size_t length = strlen(header), start = major == 1 ? 10 : 12;
    bytes[6] = (unsigned char)major;
    bytes[8] = (unsigned char)length;
    bytes[9] = (unsigned char)(length >> 8);
    memcpy(bytes + start, header, length);
    for (size_t i = 0; i < data; i++) bytes[start + length + i] = (unsigned char)i;
    put(path, bytes, start + length + data);
}

#define KEYS(type, order, shape)                                                                   \
    "{'descr': " type ", 'fortran_order': " order ", 'shape': " shape "}"

static void test_npy_headers_that_are_right(void **state) {
    (void)state;
    static const struct {
        int major;
        const char *header;
        size_t data, count;
        int rank;
    } table[] = {
        {1, KEYS("'<f8'", "False", "(2,)"), 16, 2, 1},
        {2, KEYS("'<f8'", "False", "(2,)") "   \n", 16, 2, 1},
        {3, KEYS("\">f4\"", "True", "( 2 , 1, )") "\n", 8, 2, 2},
        {1, "{\"shape\":(),\"descr\":'|b1',\"fortran_order\":False,}", 1, 1, 0},
        {1, KEYS("'|u1'", "False", "(1,1,1,1,1,1,1,3)"), 3, 3, 8},
        {1, KEYS("'>u1'", "False", "(3,)"), 3, 3, 1},
        {1, KEYS("'<f2'", "False", "(0, 281474976710656)"), 0, 0, 2},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cli_array array;
        cli_error error = {0};
        put_npy("a.npy", table[i].major, table[i].header, table[i].data);
        if (cli_read_array("a.npy", NULL, &array, &error) != 0)
            fail_msg("%s: %s", table[i].header, error.message);
        assert_int_equal(array.count, table[i].count);
        assert_int_equal(array.rank, table[i].rank);
        cli_array_free(&array);
        cli_listing listing;
        assert_int_equal(cli_list_arrays("a.npy", NULL, &listing, &error), 0);
        assert_int_equal(listing.entries[0].rank, table[i].rank);
        cli_listing_free(&listing);
    }
}

static void test_npy_headers_that_are_wrong(void **state) {
    (void)state;
    // clang-format off
    static const struct {
        const char *header;
        int code;
        const char *part;
    } table[] = {
        {"", 4, "dictionary"},
        {"[]", 4, "dictionary"},
        {"{}", 4, "must hold descr"},
        {"{'descr': '<f8', 'shape': (2,)}", 4, "must hold descr"},
        {KEYS("'<f8'", "False", "(2,)") "x", 4, "only blanks may follow"},
        {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", 4, "twice"},
        {"{'descr': '<f8', 'other': 1}", 4, "key is not"},
        {"{'descr' '<f8'}", 4, "colon"},
        {"{'descr': '<f8' 'shape': (2,)}", 4, "comma is missing in the header"},
        {"{'descr", 4, "ends inside a string"},
        {"{'d\\x65scr': 1}", 4, "no key or type"},
        {"{descr: 1}", 4, "quoted string"},
        {KEYS("'f8'", "False", "(2,)"), 4, "type is not one of"},
        {KEYS("'=f8'", "False", "(2,)"), 4, "type is not one of"},
        {KEYS("'|f8'", "False", "(2,)"), 4, "type is not one of"},
        {KEYS("'<c16'", "False", "(1,)"), 4, "type is not one of"},
        {KEYS("'<U4'", "False", "(1,)"), 4, "type is not one of"},
        {KEYS("'<M8[ns]'", "False", "(2,)"), 4, "type is not one of"},
        {KEYS("''", "False", "(2,)"), 4, "type is not one of"},
        {KEYS("'|O'", "False", "(2,)"), 4, "object arrays"},
        {KEYS("[('a', '<f8')]", "False", "(2,)"), 4, "structured"},
        {KEYS("'<f8'", "0", "(2,)"), 4, "True or False"},
        {KEYS("'<f8'", "Truer", "(2,)"), 4, "comma is missing"},
        {KEYS("'<f8'", "False", "2"), 4, "tuple"},
        {KEYS("'<f8'", "False", "[2]"), 4, "tuple"},
        {KEYS("'<f8'", "False", "(2)"), 4, "is a number"},
        {KEYS("'<f8'", "False", "(2 1)"), 4, "comma is missing in the shape"},
        {KEYS("'<f8'", "False", "(,)"), 4, "integer of at least 0"},
        {KEYS("'<f8'", "False", "(-2,)"), 4, "integer of at least 0"},
        {KEYS("'<f8'", "False", "(+2,)"), 4, "integer of at least 0"},
        {KEYS("'<f8'", "False", "(2.0,)"), 4, "comma is missing"},
        {KEYS("'<f8'", "False", "(2e0,)"), 4, "comma is missing"},
        {KEYS("'<f8'", "False", "(0x2,)"), 4, "comma is missing"},
        {KEYS("'<f8'", "False", "(2L,)"), 4, "comma is missing"},
        {KEYS("'<f8'", "False", "(02,)"), 4, "leading zero"},
        {KEYS("'<f8'", "False", "(True,)"), 4, "integer of at least 0"},
        {KEYS("'<f8'", "False", "(281474976710657, 0)"), 4, "above 2^48"},
        {KEYS("'<f8'", "False", "(99999999999999999999999999,)"), 4, "above 2^48"},
        {KEYS("'<f8'", "False", "(1099511627776, 1099511627776, 0)"), 4, "product"},
        {KEYS("'<f8'", "False", "(0, 1099511627776, 1099511627776)"), 4, "product"},
        {KEYS("'<f8'", "False", "(70368744177664, 65536)"), 4, "needs"},
        {KEYS("'<f8'", "False", "(1,1,1,1,1,1,1,1,2)"), 5, "more than 8"},
        {KEYS("'<f8'", "False", "(3,)"), 4, "needs 24 bytes of elements and the file holds 16"},
        {KEYS("'<f8'", "False", "(1,)"), 4, "needs 8 bytes of elements and the file holds 16"},
        {KEYS("'<f8'", "False", "(2,"), 4, "integer of at least 0"},
        {"{'descr': '<f8', ", 4, "quoted string"},
        {"{'shape': (12", 4, "comma is missing in the shape"},
        {"{'fortran_order': Fals", 4, "True or False"},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        put_npy("a.npy", 1, table[i].header, 16);
        cli_array array;
        cli_error error = {0};
        int code = cli_read_array("a.npy", NULL, &array, &error);
        expect(code, &error, table[i].code, table[i].part);
        assert_non_null(strstr(error.message, "a.npy: at byte "));
        cli_listing listing;
        assert_int_equal(cli_list_arrays("a.npy", NULL, &listing, &error), table[i].code);
    }
    put_npy("a.npy", 4, KEYS("'<f8'", "False", "(2,)"), 16);
    refuse("a.npy", 4, "version 4.0");
    put_npy("a.npy", 0, KEYS("'<f8'", "False", "(2,)"), 16);
    refuse("a.npy", 4, "version 0.0");
    put("a.npy", "PK\3\4PK\3\4PK\3\4", 12);
    refuse("a.npy", 4, "must start with");
    put("a.npy", "\x93NUMPY\2\0\xff\xff\xff\xff", 12);
    refuse("a.npy", 4, "beyond the end of the file");
}

static void test_npy_integers(void **state) {
    (void)state;
    static const struct {
        const char *type;
        unsigned char bytes[8];
        int64_t value;
    } table[] = {
        {"'|i1'", {0x80}, -128},
        {"'|u1'", {0x80}, 128},
        {"'<i2'", {0xfe, 0xff}, -2},
        {"'>u2'", {0xff, 0xfe}, 65534},
        {"'<i4'", {0, 0, 0, 0x80}, INT32_MIN},
        {"'>u4'", {0x80, 0, 0, 0}, 2147483648},
        {"'>i8'", {0x80, 0, 0, 0, 0, 0, 0, 1}, INT64_MIN + 1},
        {"'<u8'", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char header[128];
        size_t bytes = (size_t)(table[i].type[3] - '0');
        snprintf(header, sizeof header, KEYS("%s", "False", "(1,)"), table[i].type);
        put_npy("a.npy", 1, header, 0);
        FILE *file = fopen("a.npy", "ab");
        fwrite(table[i].bytes, 1, bytes, file);
        fclose(file);
        int64_t value = table[i].value;
        cli_array wanted = array_of(&value, OTA_I64, "", 1, 1, 0);
        read_back("a.npy", &wanted);
    }
    put_npy("a.npy", 1, KEYS("'>u8'", "False", "(1,)"), 0);
    FILE *file = fopen("a.npy", "ab");
    fwrite("\x80\0\0\0\0\0\0\0", 1, 8, file);
    fclose(file);
    refuse("a.npy", 4, "above 2^63 - 1");
    uint8_t wanted_truths[3] = {0, 1, 1};
    cli_array wanted = array_of(wanted_truths, OTA_BOOL, "", 1, 3, 0);
    put_npy("a.npy", 1, KEYS("'|b1'", "False", "(3,)"), 3); /* bytes 0 1 2 */
    read_back("a.npy", &wanted);
}

static void test_fortran_order(void **state) {
    (void)state;
    put_npy("a.npy", 1, KEYS("'|u1'", "True", "(2,3,2)"), 12);
    int64_t expected[12] = {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11};
    cli_array wanted = array_of(expected, OTA_I64, "", 2, 2, 3);
    wanted.rank = 3;
    wanted.shape[2] = 2;
    wanted.count = 12;
    read_back("a.npy", &wanted);
}

/* ---- safetensors: one row, one rule ---- */

static void put_safetensors(const char *json, size_t data) {
    unsigned char bytes[4096] = {0};
    size_t length = strlen(json);
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, json, length);
    put("a.safetensors", bytes, 8 + length + data);
}

#define ENTRY(type, shape, offsets)                                                                \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE ENTRY("F32", "[2]", "[0,8]")

static void test_safetensors_headers_that_are_right(void **state) {
    (void)state;
    static const struct {
        const char *json;
        size_t data, count;
    } table[] = {
        {"{}", 0, 0},
        {"{ }  \n", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\" : { \"a\" : \"b,}{\\\"\" , \"c\":\"\" } , \"x\":" ONE "}   ", 8, 1},
        {"{\"x\":" ONE "}", 8, 1},
        {"{\"b\":" ENTRY("BF16", "[2,1]", "[8,12]") ",\"a\":" ONE "}", 12, 2},
        {"{\"\\u00e9,\":" ONE "}", 8, 1},
        {"{\"e\":" ENTRY("F64", "[0,3]", "[8,8]") ",\"f\":" ENTRY(
             "F64", "[0]", "[0,0]") ",\"g\":" ENTRY("U8", "[0]", "[8,8]") ",\"x\":" ONE "}",
         8, 4},
        {"{\"x\":" ENTRY("F8_E4M3", "[8]", "[0,8]") "}", 8, 1},
        {"{\"x\":" ENTRY("F4", "[16]", "[0,8]") "}", 8, 1},
        {"{\"x\":" ENTRY("F32", "[]", "[0,4]") "}", 4, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cli_listing listing;
        cli_error error = {0};
        put_safetensors(table[i].json, table[i].data);
        if (cli_list_arrays("a.safetensors", NULL, &listing, &error) != 0)
            fail_msg("%s: %s", table[i].json, error.message);
        assert_int_equal(listing.count, table[i].count);
        cli_listing_free(&listing);
    }
    put_safetensors("{\"x\":" ENTRY("F8_E4M3", "[8]", "[0,8]") "}", 8);
    refuse("a.safetensors", 4, "which is not read");
    put_safetensors("{}", 0);
    refuse("a.safetensors", 4, "holds no array");
    refuse("a.safetensors:x", 2, "holds no array called \"x\"");
}

static void test_safetensors_headers_that_are_wrong(void **state) {
    (void)state;
    // clang-format off
    static const struct {
        const char *json;
        int code;
        const char *part;
    } table[] = {
        {"", 4, "JSON object"},
        {"[]", 4, "JSON object"},
        {" {\"x\":" ONE "}", 4, "must start with {"},
        {"{", 4, "not closed"},
        {"{\"x", 4, "not closed"},
        {"{\"x\\", 4, "not closed"},
        {"{\"x\":" ONE, 4, "not closed"},
        {"{\"x\":" ONE "]", 4, "bracket"},
        {"{\"x\":" ONE "} x", 4, "only blanks may follow"},
        {"{\"x\":" ONE "}{}", 4, "only blanks may follow"},
        {"{\"x\":" ONE ",}", 4, "member of the JSON object is missing"},
        {"{,\"x\":" ONE "}", 4, "member of the JSON object is missing"},
        {"{\"x\":" ONE ",,\"y\":" ONE "}", 4, "member of the JSON object is missing"},
        {"{\"x\":" ONE " \"y\":" ONE "}", 4, "not valid JSON"},
        {"{\"x\" " ONE "}", 4, "not valid JSON"},
        {"{x:" ONE "}", 4, "not valid JSON"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8}]}", 4, "not valid JSON"},
        {"{'x':" ONE "}", 4, "not valid JSON"},
        {"{\"x\":NaN}", 4, "not valid JSON"},
        {"{\"x\"://\n" ONE "}", 4, "not valid JSON"},
        {"{\"\xff\":" ONE "}", 4, "not valid JSON"},
        {"{\"\xed\xa0\x80\":" ONE "}", 4, "not valid JSON"},
        {"{\"\xc0\x80\":" ONE "}", 4, "not valid JSON"},
        {"{\"\\ud800\":" ONE "}", 4, "not valid JSON"},
        {"{\"\\u0000\":" ONE "}", 4, "not valid JSON"},
        {"{\"a\tb\":" ONE "}", 4, "not valid JSON"},
        {"{\"a\\u0001b\":" ONE "}", 4, "a name must be"},
        {"{\"\":" ONE "}", 4, "a name must be"},
        {"\xef\xbb\xbf{\"x\":" ONE "}", 4, "JSON object"},
        {"{\"x\":" ONE ",\"x\":" ONE "}", 4, "inside another tensor"},
        {"{\"x\":" ENTRY("F32", "[0]", "[0,0]") ",\"x\":" ONE "}", 4, "twice"},
        {"{\"x\":" ENTRY("F32", "[0]", "[0,0]") ",\"\\u0078\":" ONE "}", 4, "twice"},
        {"{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
         "duplicate"},
        {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"},\"x\":" ONE "}", 4, "twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{},\"x\":" ONE "}", 4, "twice"},
        {"{\"__metadata__\":{\"a\":1},\"x\":" ONE "}", 4, "strings only"},
        {"{\"__metadata__\":{\"a\":{}},\"x\":" ONE "}", 4, "strings only"},
        {"{\"__metadata__\":{\"a\"},\"x\":" ONE "}", 4, "strings only"},
        {"{\"__metadata__\":{\"a\":\"b\",},\"x\":" ONE "}", 4, "missing"},
        {"{\"__metadata__\":[],\"x\":" ONE "}", 4, "__metadata__ must be a JSON object"},
        {"{\"__metadata__\",\"x\":" ONE "}", 4, "colon"},
        {"{\"\\u005f_metadata__\":{},\"x\":" ONE "}", 4, "without escapes"},
        {"{\"__metadata__\":{\"a\":\"\\u0000\"},\"x\":" ONE "}", 4, "not valid JSON"},
        {"{\"x\":1}", 4, "exactly dtype, shape and data_offsets"},
        {"{\"x\":null}", 4, "exactly dtype, shape and data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", 4, "exactly dtype"},
        {"{\"x\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "exactly dtype"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"z\":0}}", 4, "exactly"},
        {"{\"x\":" ENTRY("F33", "[2]", "[0,8]") "}", 4, "no dtype \"F33\""},
        {"{\"x\":" ENTRY("F32", "2", "[0,8]") "}", 4, "shape must be a list"},
        {"{\"x\":" ENTRY("F32", "[2.0]", "[0,8]") "}", 4, "integers of at least 0"},
        {"{\"x\":" ENTRY("F32", "[2e0]", "[0,8]") "}", 4, "integers of at least 0"},
        {"{\"x\":" ENTRY("F32", "[-2]", "[0,8]") "}", 4, "integers of at least 0"},
        {"{\"x\":" ENTRY("F32", "[\"2\"]", "[0,8]") "}", 4, "integers of at least 0"},
        {"{\"x\":" ENTRY("F32", "[-0]", "[0,0]") "}", 4, "exact integer"},
        {"{\"x\":" ENTRY("F32", "[+2]", "[0,8]") "}", 4, "not valid JSON"},
        {"{\"x\":" ENTRY("F32", "[02]", "[0,8]") "}", 4, "not valid JSON"},
        {"{\"x\":" ENTRY("F32", "[99999999999999999999]", "[0,8]") "}", 4, "not valid JSON"},
        {"{\"x\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 5, "more than 8"},
        {"{\"x\":" ENTRY("F32", "[281474976710657,0]", "[0,0]") "}", 4, "2^48"},
        {"{\"x\":" ENTRY("F32", "[1099511627776,1099511627776,0]", "[0,0]") "}", 4, "product"},
        {"{\"x\":" ENTRY("F32", "[0,1099511627776,1099511627776]", "[0,0]") "}", 4, "product"},
        {"{\"x\":" ENTRY("F64", "[70368744177664,65536]", "[0,8]") "}", 4, "make"},
        {"{\"x\":" ENTRY("F32", "[3]", "[0,8]") "}", 4, "make 12 bytes"},
        {"{\"x\":" ENTRY("F4", "[15]", "[0,7]") "}", 4, "whole bytes"},
        {"{\"x\":" ENTRY("F32", "[2]", "[8,0]") "}", 4, "make 8 bytes"},
        {"{\"x\":" ENTRY("F32", "[2]", "[0]") "}", 4, "begin and end"},
        {"{\"x\":" ENTRY("F32", "[2]", "[0,8,8]") "}", 4, "more than 2"},
        {"{\"x\":" ENTRY("F32", "[2]", "[-8,0]") "}", 4, "integers of at least 0"},
        {"{\"x\":" ENTRY("F32", "[1]", "[4,8]") "}", 4, "after a hole"},
        {"{\"x\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, "cover 4 bytes and the file holds 8"},
        {"{}", 4, "cover 0 bytes and the file holds 8"},
        {"{\"x\":" ENTRY("F32", "[3]", "[0,12]") "}", 4, "cover 12 bytes"},
        {"{\"x\":" ONE ",\"y\":" ENTRY("F32", "[1]", "[4,8]") "}", 4, "inside another tensor"},
        {"{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 4, "64 deep"},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        put_safetensors(table[i].json, 8);
        cli_listing listing;
        cli_error error = {0};
        int code = cli_list_arrays("a.safetensors", NULL, &listing, &error);
        if (code != table[i].code) print_message("row %zu: %s\n", i, table[i].json);
        expect(code, &error, table[i].code, table[i].part);
        assert_non_null(strstr(error.message, "a.safetensors: at byte "));
    }
}

static void test_safetensors_names_at_their_limit(void **state) {
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        char name[1100], json[1300];
        memset(name, 'n', sizeof name);
        name[CLI_MAX_NAME + extra] = '\0';
        snprintf(json, sizeof json, "{\"%s\":" ONE "}", name);
        put_safetensors(json, 8);
        cli_array array;
        cli_error error = {0};
        int code = cli_read_array("a.safetensors", NULL, &array, &error);
        if (extra > 0) {
            expect(code, &error, 4, "a name must be 1 to 1024 bytes");
        } else {
            assert_int_equal(code, 0);
            assert_string_equal(array.name, name);
            cli_array_free(&array);
        }
    }
}

/* ---- one file, in parts or under way ---- */

/* The lines of every share beside each other are those of the whole, whatever the type of the elements. */
static void test_shares_make_the_whole(void **state) {
    (void)state;
    enum { BLOCKS = 2, ROWS = 5, WIDTH = 3, COUNT = BLOCKS * ROWS * WIDTH };
    double elements[COUNT];
    for (int k = 0; k < COUNT; k++) elements[k] = k;
    cli_array array = {.data = elements, .type = OTA_F64, .rank = 3, .count = COUNT};
    memcpy(array.shape, (int64_t[]){BLOCKS, ROWS, WIDTH}, 3 * sizeof(int64_t));
    snprintf(array.name, sizeof array.name, "x");
    write_file("a.npy", &array, 1);
    write_file("a.npz", &array, 1);
    write_file("a.safetensors", &array, 1);
    put_npy("u.npy", 1, KEYS("'|u1'", "False", "(2, 5, 3)"), COUNT);
    put_npy("big.npy", 1, KEYS("'>i2'", "False", "(2, 5, 3)"), 2 * COUNT);
    put_npy("fortran.npy", 1, KEYS("'|u1'", "True", "(2, 5, 3)"), COUNT);
    put_npy("line.npy", 1, KEYS("'|u1'", "False", "(5,)"), 5);
    static const struct {
        const char *spec;
        int64_t rows; /* of the share */
        bool in_part;
    } table[] = {{"a.npy", -1, true},          {"a.npy", ROWS, true},
                 {"a.npy", ROWS + 1, false},   {"a.safetensors:x", ROWS, true},
                 {"u.npy", ROWS, true},        {"big.npy", ROWS, true},
                 {"fortran.npy", ROWS, false}, {"line.npy", -1, false},
                 {"a.npz:x", ROWS, false}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        for (int ranks = 1; ranks <= ROWS + 1; ranks++) {
            cli_array whole, part;
            cli_error error = {0};
            assert_int_equal(cli_read_array(table[k].spec, NULL, &whole, &error), 0);
            const size_t element = ota_type_bytes(whole.type), line = WIDTH * element;
            int64_t at = 0;
            for (int rank = 0; rank < ranks; rank++) {
                const cli_share share = {rank, ranks, table[k].rows};
                assert_int_equal(cli_read_share(table[k].spec, &share, &part, &error), 0);
                assert_non_null(part.data);
                assert_int_equal(part.in_part, table[k].in_part && ranks > 1);
                if (!part.in_part)
                    assert_memory_equal(part.data, whole.data, whole.count * element);
                for (int64_t b = 0; part.in_part && b < BLOCKS; b++)
                    assert_memory_equal((char *)part.data + (size_t)(b * part.held) * line,
                                        (char *)whole.data + (size_t)(b * ROWS + at) * line,
                                        (size_t)part.held * line);
                if (part.in_part) assert_int_equal(part.first, at);
                at += part.held;
                cli_array_free(&part);
            }
            if (table[k].in_part && ranks > 1) assert_int_equal(at, ROWS);
            cli_array_free(&whole);
        }
    const cli_share share = {0, 2, -1};
    cli_array none;
    cli_error error = {0};
    const int code = cli_read_share("missing.npy", &share, &none, &error);
    expect(code, &error, CLI_EXIT_IO, "missing.npy: cannot be opened");
    assert_null(none.data);
    put_npy("u.npy", 1, KEYS("'<u8'", "False", "(2, 5, 3)"), 8 * COUNT);
    FILE *file = fopen("u.npy", "r+b");
    fseek(file, -1, SEEK_END);
    fputc(0xff, file);
    fclose(file);
    const cli_share last = {1, 2, -1};
    expect(cli_read_share("u.npy", &last, &none, &error), &error, 4, "above 2^63 - 1");
}

/* Sizes are those at opening: a file that shrinks or grows afterwards is refused. */
static void test_a_file_changes_under_way(void **state) {
    (void)state;
    char bytes[16];
    cli_file file;
    cli_error error = {0};
    put("a.npy", "0123456789abcdef", 16);
    assert_int_equal(cli_file_open("a.npy", NULL, &file, &error), 0);
    assert_int_equal(cli_file_read_at(&file, bytes, 16, 0, &error), 0);
    assert_int_equal(cli_file_recheck(&file, &error), 0);
    assert_int_equal(truncate("a.npy", 10), 0);
    int code = cli_file_read_at(&file, bytes, 8, 8, &error);
    expect(code, &error, CLI_EXIT_FILE, "a.npy: at byte 10: the file ends 6 bytes too early");
    code = cli_file_recheck(&file, &error);
    expect(code, &error, CLI_EXIT_FILE, "at byte 16: the file changed its size while it was read");
    cli_file_close(&file);
}

static void test_lists_that_cannot_be_made(void **state) {
    (void)state;
    static const struct {
        const char *path, *bytes;
        int code;
        const char *part;
    } table[] = {
        {"missing.npz", NULL, CLI_EXIT_IO, "missing.npz: cannot be opened"},
        {"a.txt", "x", CLI_EXIT_USAGE, "does not say which kind"},
        {"short.npz", "PK", CLI_EXIT_FILE, "too short for a zip archive"},
        {"short.safetensors", "x", CLI_EXIT_FILE, "short.safetensors"},
    };
    cli_error error = {0};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        cli_listing listing;
        if (table[k].bytes != NULL) put(table[k].path, table[k].bytes, strlen(table[k].bytes));
        const int code = cli_list_arrays(table[k].path, NULL, &listing, &error);
        expect(code, &error, table[k].code, table[k].part);
        assert_null(listing.entries);
    }
    char *value = "";
    int code = cli_safetensors_metadata("short.safetensors", "a", NULL, &value, &error);
    expect(code, &error, CLI_EXIT_FILE, "short.safetensors");
    assert_null(value);
    code = cli_safetensors_metadata("missing.safetensors", "a", NULL, &value, &error);
    expect(code, &error, CLI_EXIT_IO, "missing.safetensors: cannot be opened");
    cli_array_free(NULL);
}

/* ---- the small program ---- */

/* The four lines of stderr: sentence, hint, peak memory in KiB, processor seconds. The kernel's own
 * mark of this address space is taken because getrusage also counts the parent's pages from before
 * exec; processor time because a busy machine makes the clock on the wall say nothing. */
static int say(int code, const cli_error *error) {
    fprintf(stderr, "%s\n%s\n", code != 0 ? error->message : "", code != 0 ? error->hint : "");
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0) fputs(line + 6, stderr);
    if (status != NULL) fclose(status);
    fprintf(stderr, "%.3f\n", (double)clock() / (double)CLOCKS_PER_SEC);
    return code;
}

static int pack(const char *path, bool force, char **specs, size_t count) {
    cli_error error = {0};
    cli_output *output = NULL;
    cli_array *arrays = calloc(count + 1, sizeof *arrays);
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        code = cli_read_array(specs[i], NULL, &arrays[i], &error);
        if (code == 0 && arrays[i].name[0] == '\0')
            snprintf(arrays[i].name, sizeof arrays[i].name, "array%zu", i);
    }
    if (code == 0) code = cli_output_begin(path, force, &output, &error);
    if (code == 0) code = cli_write_arrays(output, arrays, count, &error);
    if (code == 0)
        code = cli_output_commit(output, &error);
    else
        cli_output_abort(output);
    for (size_t i = 0; i < count; i++) cli_array_free(&arrays[i]);
    free(arrays);
    return say(code, &error);
}

static int list(const char *path) {
    cli_error error = {0};
    cli_listing listing;
    int code = cli_list_arrays(path, NULL, &listing, &error);
    for (size_t i = 0; code == 0 && i < listing.count; i++) {
        const cli_entry *entry = &listing.entries[i];
        printf("%s\t%s\t%d\t", entry->name, entry->stored, (int)entry->type);
        for (int k = 0; k < entry->rank; k++)
            printf("%s%lld", k > 0 ? "," : "", (long long)entry->shape[k]);
        printf("\n");
    }
    if (code == 0) cli_listing_free(&listing);
    return say(code, &error);
}

static int metadata(const char *path, const char *key) {
    cli_error error = {0};
    char *value = NULL;
    int code = cli_safetensors_metadata(path, key, NULL, &value, &error);
    if (value != NULL) fputs(value, stdout);
    free(value);
    return say(code, &error);
}

static int run_program(int count, char **words) {
    signal(SIGPIPE, SIG_IGN);
    bool force = count > 2 && strcmp(words[2], "-f") == 0;
    char **operands = words + (force ? 3 : 2);
    int operand_count = count - (force ? 3 : 2);
    if (strcmp(words[1], "--copy") == 0 && operand_count == 2)
        return pack(operands[1], force, operands, 1);
    if (strcmp(words[1], "--pack") == 0 && operand_count >= 1)
        return pack(operands[0], force, operands + 1, (size_t)operand_count - 1);
    if (strcmp(words[1], "--list") == 0 && operand_count == 1) return list(operands[0]);
    if (strcmp(words[1], "--metadata") == 0 && operand_count == 2)
        return metadata(operands[0], operands[1]);
    return CLI_EXIT_USAGE;
}

int main(int count, char **words) {
    if (count > 1) return run_program(count, words);
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_round_trips),
        IN_FOLDER(test_an_interrupt_ends_files),
        IN_FOLDER(test_bfloat16_has_no_npy),
        IN_FOLDER(test_listing_and_names),
        IN_FOLDER(test_hints_of_many_names),
        IN_FOLDER(test_names_with_colons_and_dots),
        IN_FOLDER(test_metadata),
        IN_FOLDER(test_npy_headers_that_are_right),
        IN_FOLDER(test_npy_headers_that_are_wrong),
        IN_FOLDER(test_npy_integers),
        IN_FOLDER(test_fortran_order),
        IN_FOLDER(test_safetensors_headers_that_are_right),
        IN_FOLDER(test_safetensors_headers_that_are_wrong),
        IN_FOLDER(test_safetensors_names_at_their_limit),
        IN_FOLDER(test_shares_make_the_whole),
        IN_FOLDER(test_a_file_changes_under_way),
        IN_FOLDER(test_lists_that_cannot_be_made),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
