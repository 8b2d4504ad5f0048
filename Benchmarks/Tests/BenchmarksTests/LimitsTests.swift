import Benchmarks
import Testing

@Suite("Limits and options")
struct LimitsTests {
    @Test func `limits are names with numbers, and comments`() throws {
        let limits = try AgreedLimits("# what\n\nack 12.5  # why\nregister-first 40\n")
        #expect(limits.limits == ["ack": 12.5, "register-first": 40])
    }

    @Test(arguments: ["ack", "ack x", "ack 1 2", "ack 1\nack 2"])
    func `other lines are errors`(text: String) {
        #expect(throws: BenchmarkError.self) { try AgreedLimits(text) }
    }

    @Test func `too many, unlimited and missing counts are complained about`() throws {
        let limits = try AgreedLimits("a 10\nb 10\ngone 1")
        #expect(
            limits.complaints(about: [("a", 10), ("b", 10.5), ("c", 1)], of: "allocations") == [
                "b: 10.5 allocations, the limit is 10", "c: 1 allocations, and there is no limit for it",
                "gone: there is a limit, but nothing of that name was counted",
            ])
    }

    @Test func `options and names are read, and the daemon is beside the program`() throws {
        let options = try BenchmarkOptions(["hold", "--calls", "50", "--json", "memory"], program: "/a/b/benchmarks")
        #expect(options.names == [.hold, .memory])
        #expect(options.calls == 50)
        #expect(try BenchmarkOptions(["tls", "--phones", "7"], program: "x").phones == 7)
        #expect(options.isJSON)
        #expect(options.daemon == "/a/b/sippushd")
        let all = BenchmarkOptions.Name.allCases.filter { $0 != .days && $0 != .upstream && $0 != .instructions }
        #expect(try BenchmarkOptions([], program: "x").names == all.filter { $0 != .push })
        #expect(try BenchmarkOptions(["--url", "https://h/"], program: "x").names == all)
        #expect(try BenchmarkOptions(["days", "--seeds", "7-9"], program: "x").seeds == 7..<10)
    }

    @Test(arguments: [
        ["holds"], ["--calls"], ["--calls", "0"], ["--calls", "many"], ["--limits"],
        ["allocations", "instructions", "--limits", "x"], ["idle", "instructions", "--limits", "x"],
        ["--seeds", "9-7"], ["--seeds", "7"],
        ["--seeds", "1-18446744073709551615"],
    ])
    func `what is not understood is an error`(words: [String]) {
        #expect(throws: BenchmarkError.self) { try BenchmarkOptions(words, program: "x") }
    }

    @Test func `a process's figures are those of proc`() throws {
        let fields = (3...52).map { "\($0)" }.joined(separator: " ")
        let figures = try #require(
            ProcessFigures(
                stat: "17 (odd) name) \(fields)\n", status: "Name:\tx\nVmRSS:\t    1234 kB\nThreads:\t1\n",
                ticksPerSecond: 100))
        #expect(figures.cpu == .milliseconds(290))
        #expect(figures.residentBytes == 1234 * 1024)
        #expect(ProcessFigures(stat: "", status: "", ticksPerSecond: 100) == nil)
    }

    @Test func `a call's story tells how far it came`() {
        var call = CallProgress()
        #expect(!call.isOver)
        #expect(call.story.hasPrefix("not sent, no push, INVITE not delivered"))
        call.hasTrying = true
        call.pushes = 2
        call.finalStatus = 480
        #expect(call.story.contains("100 received, pushed 2 times"))
        #expect(call.story.contains("caller got 480"))
        #expect(call.isOver)
    }
}
