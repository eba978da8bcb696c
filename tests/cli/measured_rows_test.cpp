#include "cli/measured_rows.h"

#include <gtest/gtest.h>

#include "estimator/spec/error.h"
#include "tests/support/fault.h"

namespace planwright::testing {
namespace {

using cli::MeasuredRow;

std::vector<MeasuredRow> rows_of(const std::string& text) {
  return cli::measured_rows_of(text, "rows.csv");
}

TEST(MeasuredRows, HaveTheCellsOfTheirColumns) {
  const auto rows = rows_of(
      "id,model,tp,peak_mem_gib,mem_kind,outcome,tied\n"
      "a,\"Llama, \"\"2\"\"\",8,17.25,nvidia-smi,ok,1\r\n"
      "\n"
      "b,,,,,oom,0\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].id, "a");
  EXPECT_EQ(rows[0].fault, "");
  EXPECT_EQ(rows[0].text("model"), "Llama, \"2\"");
  EXPECT_EQ(rows[0].count("tp"), 8);
  EXPECT_EQ(rows[0].number("peak_mem_gib"), 17.25);
  EXPECT_EQ(rows[0].memory_kind(), cli::MemoryKind::nvidia_smi);
  EXPECT_EQ(rows[0].outcome(), cli::RowOutcome::ok);
  EXPECT_EQ(rows[0].flag("tied"), true);
  EXPECT_FALSE(rows[0].says("dp"));
  EXPECT_EQ(rows[1].line, 4u);
  EXPECT_FALSE(rows[1].says("model"));
  EXPECT_EQ(rows[1].count("tp"), std::nullopt);
  EXPECT_EQ(rows[1].memory_kind(), std::nullopt);
  EXPECT_EQ(rows[1].flag("tied"), false);
}

TEST(MeasuredRows, KnowTheLineThatARowBeginsIn) {
  const auto rows = rows_of("id,notes\na,\"two\nlines\"\nb,\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].line, 2u);
  EXPECT_EQ(rows[1].line, 4u);
}

TEST(MeasuredRows, MayBeginWithAByteOrderMarkAndHaveNoRows) {
  EXPECT_EQ(rows_of("\xEF\xBB\xBFid,tp\na,1\n").size(), 1u);
  EXPECT_TRUE(rows_of("id,tp\n").empty());
}

TEST(MeasuredRows, RefuseToBeAskedForWhatIsNoColumn) {
  EXPECT_THROW(rows_of("id\na\n").front().text("tpp"), std::logic_error);
}

struct BadHeader {
  const char* name;
  const char* text;
  const char* message;
};

class MeasuredHeader : public ::testing::TestWithParam<BadHeader> {};

TEST_P(MeasuredHeader, IsRefused) {
  const InputFault fault = fault_of([] { rows_of(GetParam().text); });
  EXPECT_NE(std::string(InputError(fault).what()).find(GetParam().message), std::string::npos)
      << InputError(fault).what();
}

INSTANTIATE_TEST_SUITE_P(
    Rows, MeasuredHeader,
    ::testing::Values(
        BadHeader{"Empty", "", "rows.csv: is empty"},
        BadHeader{"WithoutId", "model,tp\nx,1\n", "rows.csv: id: is a column that such a table"},
        BadHeader{"Unknown", "id,tpp\na,1\n", "rows.csv: column = tpp: is not a column"},
        BadHeader{"Nearest", "id,micro_batc\na,1\n", "did you mean micro_batch?"},
        BadHeader{"Escape", "id,\x1b[31m\xff\na,1\n", "rows.csv: column = \\x1b[31m\\xff: is not"},
        BadHeader{"Twice", "id,tp,tp\na,1,1\n", "rows.csv: column = tp: is there twice"}),
    [](const auto& each) { return each.param.name; });

TEST(MeasuredRows, AreNotReadFromWhatIsNoText) {
  const std::string binary("id\na\0b\n", 7);
  EXPECT_EQ(std::string(InputError(fault_of([&] { rows_of(binary); })).what()),
            "rows.csv: is not a text");
}

struct Malformed {
  const char* name;
  const char* columns;
  const char* row;
  const char* fault;
};

class MalformedRow : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedRow, NamesFileLineColumnValueAndRule) {
  const std::string text = std::string("id,") + GetParam().columns + "\n" + GetParam().row + "\n";
  const auto rows = rows_of(text);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].fault, std::string("rows.csv: line 2") + GetParam().fault);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, MalformedRow,
    ::testing::Values(
        Malformed{"TooFewCells", "tp,pp", "a,1", ": has 2 cells, and there are 3 columns"},
        Malformed{"TooManyCells", "tp", "a,1,2", ": has 3 cells, and there are 2 columns"},
        Malformed{"OpenQuote", "model", "a,\"Llama", ": has a quote that is never closed"},
        Malformed{"NoId", "tp", ",1", ": has no id"},
        Malformed{"Word", "tp", "a,two", ", tp = two: must be a whole number"},
        Malformed{"Decimal", "tp", "a,2.0", ", tp = 2.0: must be a whole number"},
        Malformed{"Blank", "tp", "a, 2", ", tp =  2: must be a whole number"},
        Malformed{"Zero", "dp", "a,0", ", dp = 0: must be at least 1"},
        Malformed{"Negative", "layers", "a,-4", ", layers = -4: must be at least 1"},
        Malformed{"ManyRanks", "pp", "a,40000", ", pp = 40000: must be at most 32768"},
        Malformed{"Huge", "hidden", "a,9999999999999",
                  ", hidden = 9999999999999: must be at most 1000000000000"},
        Malformed{"TooManyDigits", "ffn", "a,99999999999999999999",
                  ", ffn = 99999999999999999999: has more digits than any number that is meant "
                  "here"},
        Malformed{"FourthStage", "zero", "a,4", ", zero = 4: must be at most 3"},
        Malformed{"FlagWord", "flash", "a,yes", ", flash = yes: must be a whole number"},
        Malformed{"FlagTwo", "tied", "a,2", ", tied = 2: must be at most 1"},
        Malformed{"NegativePeak", "peak_mem_gib", "a,-1.5",
                  ", peak_mem_gib = -1.5: must be above 0"},
        Malformed{"ZeroPeak", "peak_mem_gib", "a,0", ", peak_mem_gib = 0: must be above 0"},
        Malformed{"PeakWithUnit", "peak_mem_gib", "a,17 GiB",
                  ", peak_mem_gib = 17 GiB: must be a number"},
        Malformed{"NoNumber", "step_time_s", "a,nan", ", step_time_s = nan: must be a number"},
        Malformed{"Infinite", "tokens_s_gpu", "a,1e999",
                  ", tokens_s_gpu = 1e999: must be a number"},
        Malformed{"Kind", "mem_kind", "a,vram",
                  ", mem_kind = vram: must be one of allocated, reserved, nvidia-smi or unknown"},
        Malformed{"Outcome", "outcome", "a,OOM", ", outcome = OOM: must be one of ok or oom"},
        Malformed{"EndlessPeak", "peak_mem_gib", "a,9e99",
                  ", peak_mem_gib = 9e99: must be at most 1000000"},
        Malformed{"EndlessStep", "step_time_s", "a,1e300",
                  ", step_time_s = 1e300: must be at most 1000000000"},
        Malformed{"Percent", "mfu", "a,45", ", mfu = 45: must be at most 1"},
        Malformed{"Escape", "source", "a,x\x1b[31m",
                  ", source = x\\x1b[31m: must be of printable characters in UTF-8"},
        Malformed{"NoUtf8", "model", "a,x\x9b",
                  ", model = x\\x9b: must be of printable characters in UTF-8"},
        Malformed{"OtherMemory", "gpu,gpu_mem_gb", "a,A100-80GB,40",
                  ", gpu_mem_gb = 40: is not the memory of gpu A100-80GB, which has 80"},
        Malformed{"NeitherMemory", "gpu,gpu_mem_gb", "a,A100,48",
                  ", gpu_mem_gb = 48: is not the memory of gpu A100, which has 40 or 80"},
        Malformed{"PeakAboveMemory", "gpu,peak_mem_gib,outcome", "a,A100-80GB,200,ok",
                  ", peak_mem_gib = 200: is more than the device has, 80"},
        Malformed{"MoreKeysThanHeads", "heads,kv_heads", "a,8,9",
                  ", kv_heads = 9: is more than heads 8"},
        Malformed{"MoreChosenThanExperts", "experts,topk", "a,8,9",
                  ", topk = 9: is more than experts 8"},
        Malformed{"FirstOfTwo", "tp,pp", "a,x,y", ", tp = x: must be a whole number"}),
    [](const auto& each) { return each.param.name; });

TEST(MeasuredRows, MayGiveADevicesMemoryInEitherUnitOrAsADriverDoes) {
  for (const char* cells : {"A100-80GB,80,", "A100-80GB,85.9,", "A100-80GB,74.5,", "T4,14.6,",
                            "A100,40,", "M2 Max,32,", "no such device,3,", ",24,"}) {
    const auto rows = rows_of(std::string("id,gpu,gpu_mem_gb,peak_mem_gib\na,") + cells + "\n");
    EXPECT_EQ(rows.front().fault, "") << cells;
  }
  EXPECT_EQ(rows_of("id,gpu,peak_mem_gib,outcome\na,T4,99,oom\n").front().fault, "")
      << "what it would have taken";
}

TEST(MeasuredRows, WithAnIdThatIsTakenAreMalformed) {
  const auto rows = rows_of("id,tp\na,1\na,2\n");
  EXPECT_EQ(rows[0].fault, "");
  EXPECT_EQ(rows[1].fault, "rows.csv: line 3, id = a: is the id of line 2 already");
}

TEST(MeasuredRows, KnowARowThatWasRunAlike) {
  const auto rows = cli::measured_rows_of(
      "id,model,seq_len,peak_mem_gib,mem_kind,notes\n"
      "a,one,8,20,allocated,fused\nb,one,8,31,reserved,\nc,one,16,20,allocated,fused\n"
      "d,one,8,,,\ne,one,none,,,\nf,one,none,,,\n",
      "rows.csv");
  std::vector<std::size_t> twins;
  for (const auto& row : rows) twins.push_back(row.twin);
  EXPECT_EQ(twins, (std::vector<std::size_t>{3, 2, 0, 2, 0, 0}));
}

TEST(MeasuredRows, OfTheShippedTablesCanAllBeRead) {
  for (const char* file : {"pretrain.csv", "finetune.csv"}) {
    for (const MeasuredRow& row : cli::read_measured_rows(
             std::string(PLANWRIGHT_SOURCE_DIR "/tests/data/measured/") + file)) {
      EXPECT_EQ(row.fault, "");
    }
  }
}

}  // namespace
}  // namespace planwright::testing
