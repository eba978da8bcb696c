#include <gtest/gtest.h>

#include "command.h"

/// Wrong input, given to the real program: exit code 2, nothing on stdout, and one line that names
/// what is wrong.
namespace planwright::testing {
namespace {

struct WrongInput {
  const char* name;
  const char* arguments;
  const char* fragments;  ///< separated by '|', all of them in the message
};

class WrongInputProcess : public ::testing::TestWithParam<WrongInput> {};

/// `{folder}` in the arguments is the test's folder, with these files in it.
void put_files(const TestFolder& folder) {
  folder.put("typo.toml", "[job]\nglbal_batch = 8\n");
  folder.put("table.toml", "[zzzzz]\n");
  folder.put("notime.toml",
             "[model]\nmodel = \"tiny-llama-kind\"\n[job]\nseq = 8\nglobal_batch = 8\n"
             "[budget]\ntime = \"10\"\n");
  folder.put("badlink.toml",
             "[[link]]\nname = \"a\"\nbandwidth = \"1GB/s\"\nlatency_us = 1\nspan = 2\n");
  folder.put("badkey.toml", "host_mem = \"1GiB\"\n");
  folder.put("notplan.json", "{\"schema\": \"other/1\"}");
  folder.put("broken.json", "{");
  folder.put("empty.json", R"({"schema": "planwright.plan_file/1", "problem": {}, "candidate": {},)"
                           R"( "evidence": {}})");
  folder.put("strange.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})");
  folder.put("kind.json", R"({"model_type": "perceiver", "architectures": ["X"]})");
  folder.put("binary.csv", std::string("id\na\0b\n", 7));
  folder.put("foreign.db", "this is no database, but a text that is long enough to be one");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char each : text) {
    if (each == separator) {
      parts.emplace_back();
    } else {
      parts.back() += each;
    }
  }
  return parts;
}

std::string filled(std::string text, const std::string& folder) {
  const std::string base = "--model tiny-llama-kind --device cpu --seq 64 --global-batch 8";
  for (const auto& [mark, value] : {std::pair{std::string("{folder}"), folder}, {"{base}", base}}) {
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

TEST_P(WrongInputProcess, IsNamedOnStderrWithExitCode2) {
  const TestFolder folder;
  put_files(folder);
  const CommandResult result =
      run_command({folder.path()}, words(filled(GetParam().arguments, folder.path())));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& fragment : split(GetParam().fragments, '|')) {
    EXPECT_NE(result.err.find(fragment), std::string::npos)
        << fragment << " is not in " << result.err;
  }
}

const WrongInput kRows[] = {
    {"UnknownVerb", "estmate", "estmate|did you mean estimate?"},
    {"UnknownVerbFlag", "--verison", "--verison|not one of the verbs"},
    {"HelpOfNothing", "help estmate", "did you mean estimate?"},
    {"HelpOfTwo", "help plan tune", "tune|one argument too many"},
    {"UnknownFlag", "estimate --sequence 8", "--sequence|is not a flag"},
    {"FlagTypo", "estimate --glbal-batch 8", "--glbal-batch|did you mean --global-batch?"},
    {"FlagWithUnderscore", "estimate --global_batch 8", "did you mean --global-batch?"},
    {"FlagOfAnotherVerb", "estimate --probes 3", "--probes|is not a flag of planwright estimate"},
    {"ShortFlag", "estimate -x", "-x|is not a flag"},
    {"FlagTwice", "estimate --seq 8 --seq 9", "--seq = 9|is given twice"},
    {"FlagWithoutValue", "estimate --seq", "--seq|needs a value"},
    {"FlagForValue", "estimate --seq --json", "--seq|needs a value"},
    {"EmptyValue", "estimate --model=", "--model|needs a value"},
    {"MarkWithValue", "estimate --json=maybe", "--json = maybe|must be on or off"},
    {"TwoFiles", "estimate a.toml b.toml", "one argument too many"},
    {"WordForDevices", "devices all", "takes flags only"},
    {"QuietAndVerbose", "devices --quiet --verbose", "--quiet|contradicts --verbose"},
    {"BadColor", "devices --color sometimes", "--color = sometimes|auto, always or never"},
    {"BadSeed", "plan {base} --seed minus", "--seed = minus|whole number"},
    {"NegativeSeed", "plan {base} --seed=-1", "--seed = -1|at least 0"},

    {"FarTable", "plan {folder}/table.toml",
     "table.toml: zzzzz: is not one of the tables|storage\n"},
    {"MissingFile", "plan none.toml", "none.toml|there is no such file"},
    {"FolderForFile", "plan {folder}", "is a folder"},
    {"KeyTypo", "plan {folder}/typo.toml",
     "typo.toml|[job] glbal_batch|did you mean global_batch?"},

    {"KnobTwice", "estimate {base} --knobs bucket=1,bucket=2",
     "--knobs = bucket=1|has bucket twice"},

    {"MisspeltKnob", "estimate {base} --target fsdp --knobs engnie=fsdp",
     "--knobs = engnie=fsdp|not a knob of target fsdp: that has engine,|did you mean engine?"},
    {"MisspeltKnobOfPlan", "plan {base} --target fsdp --knobs engnie=fsdp",
     "--knobs = engnie=fsdp|not a knob of target fsdp: that has engine,|did you mean engine?"},
    {"UnknownKnobValueOfPlan", "plan {base} --target fsdp --knobs fused_loss=flashattn",
     "fused_loss=flashattn|must be one of|did you mean fused_loss=flash_attn?"},
    {"BinaryRows", "score {folder}/binary.csv", "binary.csv: is not a text"},

    {"NoModel", "estimate --seq 8 --device cpu", "--model|is required"},
    {"UnknownModel", "estimate --model lama-2-7b --seq 8",
     "--model = lama-2-7b|did you mean llama-2-7b?"},
    {"FarModel", "estimate --model nope.json --seq 8", "a folder that holds one\n"},
    {"ModelNoJson", "estimate --model {folder}/broken.json --seq 8", "broken.json"},
    {"ModelMissingKeys", "estimate --model {folder}/strange.json --seq 8", "strange.json"},
    {"ModelUnknownKind", "estimate --model {folder}/kind.json --seq 8", "kind.json|perceiver"},
    {"ModelEmptyFolder", "estimate --model {folder} --seq 8", "config.json"},

    {"FarDevice", "estimate --model gpt2 --seq 8 --device toaster",
     "--device = toaster|that `planwright devices` lists\n"},
    {"UnknownDevice", "estimate --model gpt2 --seq 8 --device H1000",
     "--device = H1000|did you mean H100-"},
    {"ZeroDevices", "estimate {base} --devices 0", "--devices = 0|at least 1"},
    {"ManyDevices", "estimate {base} --devices 99999999", "--devices = 99999999|at most"},
    {"MoreRanksThanMemory",
     "probe --model tiny-llama-kind --device cpu --seq 64 --devices 1000000 --global-batch 1000000",
     "--devices = 1000000|must be at most|before it holds a tensor"},
    {"MoreThreadsThanCores", "probe {base} --threads 100000",
     "--threads = 100000|the cores of this host"},
    {"EndlessNumber", "estimate {base} --micro-batch 99999999999999999999",
     "--micro-batch = 99999999999999999999|more digits"},
    {"NegativeDropout", "estimate {base} --hidden-dropout=-0.1",
     "--hidden-dropout = -0.1|from 0 to below 1"},
    {"AdapterNamedTwice", "estimate {base} --job lora --lora-targets q_proj,q_proj",
     "--lora-targets = q_proj|is named twice"},
    {"EveryAdapterAndOne", "estimate {base} --job lora --lora-targets all-linear,q_proj",
     "--lora-targets = all-linear|stands alone"},
    {"ShadowStudy", "tune {base} --mode shadow", "--mode = shadow|did you mean full?"},
    {"StudyOfNoTime", "plan {folder}/notime.toml", "[budget] time = 10|did you mean 10s?"},
    {"StudyWithControlCharacter", "tune {base} --study a\x1b", "--study = a\\x1b|control"},
    {"ModelWithControlCharacter",
     "estimate --model a\x1b"
     "b --seq 8",
     "--model = a\\x1b"
     "b"},
    {"WordDevices", "estimate {base} --devices two", "--devices = two|whole number"},
    {"CpuPerNode", "estimate {base} --devices 2 --per-node 1", "--per-node = 1|one host"},
    {"UnevenNodes",
     "estimate --model gpt2 --seq 8 --device H100-SXM5-80GB --devices 12 --per-node 8",
     "--per-node = 8|must divide the 12 devices"},
    {"UnevenDevices", "estimate --model gpt2 --seq 8 --device H100-SXM5-80GB --devices 71",
     "--devices = 71|whole nodes of 8|did you mean 64 or 72?"},
    {"UnevenCluster", "estimate --model gpt2 --seq 8 --cluster p4de.24xlarge --devices 12",
     "--devices = 12|whole nodes of 8, as p4de.24xlarge has|did you mean 8 or 16?"},
    {"UnevenSockets", "estimate --model gpt2 --seq 8 --device EPYC-9654 --memory 64GiB --devices 3",
     "--devices = 3|whole nodes of 2|did you mean 2 or 4?"},
    {"NodeForDevice", "estimate --model gpt2 --seq 8 --device p5.48xlarge",
     "--device = p5.48xlarge|is a node|did you mean --cluster p5.48xlarge?"},
    {"PlanOfServers", "plan {base} --job inference", "--job = inference|for the verb estimate"},
    {"NoRoomInMemory", "estimate {base} --memory 1B", "--memory = 1B|leave some"},
    {"ThreadsOnGpu", "estimate --model gpt2 --seq 8 --device H100-SXM5-80GB --threads 2",
     "--threads|CPU devices only"},
    {"AmbiguousMemory", "estimate {base} --memory 80G",
     "--memory = 80G|80GB (80000000000 bytes)|80GiB (85899345920 bytes)"},
    {"BareMemory", "estimate {base} --memory 80", "--memory = 80|needs a unit|did you mean 80GiB?"},
    {"ZeroMemory", "estimate {base} --memory 0GiB", "more than zero"},
    {"FarUnit", "estimate {base} --memory 80parsecs",
     "has the unknown unit parsecs, none of B, KB|or TiB\n"},
    {"LowerCaseMemory", "estimate {base} --memory 80gib", "did you mean 80GiB?"},
    {"MissingCluster", "estimate {base} --cluster none.toml", "none.toml|no such file"},
    {"ClusterKey", "estimate {base} --cluster {folder}/badkey.toml",
     "badkey.toml|host_mem|did you mean host_memory?"},
    {"ClusterSpan", "estimate {base} --devices 4 --cluster {folder}/badlink.toml",
     "[[link]] span|all 4 devices"},

    {"NoSeq", "estimate --model gpt2 --device cpu", "--seq|is required"},
    {"ZeroSeq", "estimate --model gpt2 --device cpu --seq 0", "--seq = 0|at least 1"},
    {"HugeSeq", "estimate --model gpt2 --device cpu --seq 9000000000000000000",
     "--seq = 9000000000000000000|2^50 tokens"},
    {"NoGlobalBatch", "plan --model gpt2 --device cpu --seq 8", "--global-batch|is required"},
    {"BadJob", "estimate {base} --job train", "--job = train|must be one of pretrain"},
    {"BadTarget", "estimate {base} --target buildin", "--target = buildin|did you mean builtin?"},
    {"DashesWithoutCommand", "tune {base} --target command --", "--: needs a command behind it"},
    {"DashesOfDevices", "devices -- train", "train|planwright devices takes flags only"},
    {"CommandOfNothing", "tune {base} --target command", "--target = command|needs the command"},
    {"ScriptForTheWorker", "tune {base} -- train.py",
     "--: is for targets that train with your script; builtin has its own"},
    {"TemplateForTheWorker", "tune {base} --template {folder}/typo.toml",
     "--template: is for target command"},
    {"LauncherOfACommand", "tune {base} --target command --launcher torchrun -- x {micro_batch}",
     "--launcher = torchrun|your command starts its ranks itself"},
    {"LauncherOfTheWorker", "probe {base} --launcher torchrun",
     "--launcher = torchrun|starts its ranks itself"},
    {"LauncherForAScript", "tune {base} --target hf-trainer -- torchrun train.py",
     "-- = torchrun|is no script|only your script and its arguments|--target command"},
    {"PythonForAScript", "probe {base} --target fsdp -- python3.11 train.py",
     "-- = python3.11|is no script"},
    {"DashesTwice", "tune {base} --target command -- -- train",
     "-- = \"--\"|must begin with a program"},
    {"PlaceholderTypo", "tune {base} --target command -- train {micro_bach}",
     "{micro_bach}|is nothing that can be filled in|did you mean {micro_batch}?"},
    {"AxisNotYet", "tune {base} --target command -- train {cp}",
     "cp: is an axis that this version cannot estimate yet"},
    {"TemplateMissing", "tune {base} --target command --template none.yaml -- train",
     "none.yaml|no such file"},
    {"BadPrecision", "estimate {base} --precision bf17", "--precision = bf17|did you mean bf16?"},
    {"TargetPrecision", "estimate {base} --precision fp8",
     "--precision = fp8|not a precision of target builtin"},
    {"BadOptimizer", "estimate {base} --optimizer adam", "--optimizer = adam|must be one of"},
    {"BadGradient", "estimate {base} --grad-dtype float", "--grad-dtype = float"},
    {"BadState", "estimate {base} --state-dtype int8", "--state-dtype = int8"},
    {"BadMaster", "estimate {base} --master-weights yes", "--master-weights = yes|on or off"},
    {"AdapterRank", "estimate {base} --lora-rank 8", "--lora-rank = 8|lora and qlora"},
    {"OptimizerOfInference", "estimate {base} --job inference --optimizer lion",
     "--optimizer = lion|jobs that train"},
    {"DropoutOfInference", "estimate {base} --job inference --hidden-dropout 0.1",
     "--hidden-dropout = 0.1|jobs that train"},
    {"CacheOfTraining", "estimate {base} --kv-dtype fp8", "--kv-dtype = fp8|for the job inference"},
    {"PrefillOfTraining", "estimate {base} --prefill 8", "--prefill = 8|for the job inference"},
    {"UnknownCache", "estimate {base} --job inference --kv-dtype fp7",
     "--kv-dtype = fp7|must be one of|fp8"},
    {"NoPage", "estimate {base} --job inference --kv-block 0", "--kv-block = 0|at least 1"},
    {"CapitalQuant", "estimate {base} --job inference --quant NF4",
     "--quant = NF4|did you mean nf4?"},
    {"UnknownQuant", "estimate {base} --job inference --quant nf5",
     "--quant = nf5|must be one of none, nf4|nf4"},
    {"UnknownQloraQuant", "estimate {base} --job qlora --quant int7",
     "--quant = int7|must be one of none|int8"},
    {"LoraOfInference", "estimate {base} --job inference --lora-rank 8",
     "--lora-rank = 8|lora and qlora"},
    {"NodeOfAnotherDevice", "estimate --model gpt2 --seq 8 --device T4 --cluster p5.48xlarge",
     "--device = T4|is not the device of p5.48xlarge|H100-SXM5-80GB"},
    {"NodeOfNoDevice", "estimate --model gpt2 --seq 8 --device cpu --cluster p5.48xlarge",
     "--device = cpu|is not the device of p5.48xlarge|H100-SXM5-80GB"},
    {"SocketWithoutMemory", "estimate --model gpt2 --seq 8 --device EPYC-9654",
     "--memory|is required for EPYC 9654|was put in"},
    {"ThreadsOfASocket",
     "estimate --model gpt2 --seq 8 --device EPYC-9654 --memory 64GiB --threads 2",
     "--threads = 2|this host's CPU only"},
    {"NodesInOtherParts",
     "estimate --model gpt2 --seq 8 --cluster p5.48xlarge --devices 16 --per-node 4",
     "--per-node = 4|is not what p5.48xlarge has|8"},
    {"AmbiguousDevice", "estimate --model gpt2 --seq 8 --device A100",
     "--device = A100|say which by memory and form|A100-SXM4-80GB"},
    {"Quantised", "estimate {base} --quant nf4", "--quant = nf4|qlora and inference"},
    {"QuantisedLora", "estimate {base} --job lora --quant nf4",
     "--quant = nf4|for the jobs qlora and inference"},
    {"AdapterRankZero", "estimate {base} --job lora --lora-rank 0", "--lora-rank = 0|at least 1"},
    {"AdapterModule", "estimate {base} --job lora --lora-targets q_poj",
     "--lora-targets = q_poj|must be some of q_proj|did you mean q_proj?"},
    {"AdapterTwice", "estimate {base} --job lora --lora-targets qkv_proj,q_proj",
     "--lora-targets = qkv_proj,q_proj|q_proj twice"},
    {"AdapterOfNoGate",
     "estimate --model gpt2 --device cpu --seq 64 --global-batch 8 --job lora "
     "--lora-targets gate_proj",
     "--lora-targets = gate_proj|MLP has none"},
    {"DropoutOfAll", "estimate {base} --hidden-dropout 1", "--hidden-dropout = 1|below 1"},
    {"DropoutInPercent", "estimate {base} --attention-dropout 10%",
     "--attention-dropout = 10%|such as 0.1"},
    {"FullHeadroom", "estimate {base} --headroom 100%", "--headroom = 100%|less than 100%"},
    {"BareHeadroom", "estimate {base} --headroom 5", "--headroom = 5|needs a unit"},

    {"ListForEstimate", "estimate {base} --zero 0,1", "--zero = 0,1|lists are for plan and tune"},
    {"ZeroFour", "estimate {base} --zero 4", "--zero = 4|must be 0, 1, 2 or 3"},
    {"NoMicroBatch", "estimate {base} --micro-batch 0", "--micro-batch = 0|at least 1"},
    {"BadRecompute", "estimate {base} --recompute all", "--recompute = all"},
    {"ChunkWithoutCount", "estimate {base} --recompute chunk",
     "--recompute = chunk|number of layers"},
    {"BadOffload", "estimate {base} --offload optimiser",
     "--offload = optimiser|did you mean optimizer?"},
    {"BadSchedule", "estimate {base} --schedule 2f2b", "--schedule = 2f2b"},
    {"BadSp", "estimate {base} --sp maybe", "--sp = maybe|on or off"},
    {"BadAttention", "estimate {base} --attention flush", "did you mean flash?"},
    {"HugeWorld", "estimate {base} --tp 1000000 --pp 1000000", "--tp|10^9 ranks"},
    {"ListTwice", "plan {base} --zero 0,0", "--zero = 0,0|has 0 twice"},
    {"ListGap", "plan {base} --zero 0,,1", "single commas"},
    {"TopZero", "plan {base} --top 0", "--top = 0|at least 1"},
    {"UnknownKnob", "plan {base} --knobs bukket=1", "bukket"},

    {"PlanAndAxis", "estimate --plan p.json --zero 1", "--zero = 1|contradicts --plan"},
    {"MissingPlan", "estimate --plan none.json", "none.json|there is no such file"},
    {"PlanNoJson", "estimate --plan {folder}/broken.json", "broken.json"},
    {"PlanOfNothing", "estimate --plan {folder}/empty.json", "empty.json|model.hidden = 0"},
    {"PlanOfOther", "estimate --plan {folder}/notplan.json", "notplan.json|schema"},

    {"BadMode", "probe {base} --mode half", "--mode = half|must be one of full or shadow"},
    {"LaterMode", "probe {base} --mode truncated",
     "--mode = truncated|must be one of full or shadow"},
    {"NoSteps", "probe {base} --steps 0", "--steps = 0|at least 1"},
    {"BadTimeout", "probe {base} --timeout 5", "--timeout = 5|needs a unit"},
    {"BadEnvironment", "probe {base} --environment A", "--environment = A|NAME=VALUE"},
    {"ProbePreset", "probe --model gpt2 --seq 8 --device H100-SXM5-80GB",
     "command line: --device = H100-SXM5-80GB|does not have 1"},
    {"TunePreset", "tune --model gpt2 --seq 8 --global-batch 8 --device H100-SXM5-80GB",
     "cannot be measured here"},
    {"BadTime", "tune {base} --time soon", "--time = soon|must be a time"},
    {"NoProbes", "tune {base} --probes 0", "--probes = 0|at least 1"},
    {"FolderForStore", "tune {base} --no-benchmark --worker /bin/true --storage {folder}",
     "is a folder"},
    {"ForeignStore", "tune {base} --no-benchmark --worker /bin/true --storage {folder}/foreign.db",
     "foreign.db"},

    {"NoQuestion", "history", "must be list, best or show N"},
    {"BadQuestion", "history lst", "history = lst|did you mean list?"},
    {"ShowNothing", "history show", "needs the number of a trial"},
    {"ShowWord", "history show last", "last|whole number"},
    {"ListMore", "history list 3", "takes no further argument"},
    {"MissingStore", "history list --storage none.db", "none.db"},
    {"ShowFiltered", "history show 0 --device cpu", "--device = cpu|is for history list and best"},
    {"ForeignHistory", "history list --storage {folder}/foreign.db", "foreign.db"},
    {"EmitNoStore", "emit --storage none.db", "none.db"},
    {"EmitPlanAndProblem", "emit --plan p.json --seq 8", "--seq = 8|contradicts --plan"},
    {"EmitBoth", "emit --plan p.json --trial 3", "--trial = 3|contradicts --plan"},
};

INSTANTIATE_TEST_SUITE_P(Table, WrongInputProcess, ::testing::ValuesIn(kRows),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace planwright::testing
