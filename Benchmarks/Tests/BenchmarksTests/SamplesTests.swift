import Benchmarks
import Testing
import Timekeeping

@Suite("Figures")
struct SamplesTests {
    @Test(arguments: [(50.0, 50), (99, 99), (100, 100), (0, 1), (1.5, 2)])
    func `a percentile is a value that was measured`(percent: Double, expected: Int) {
        var samples = Samples()
        for value in (1...100).shuffled() { samples.add(.milliseconds(value)) }
        #expect(samples.percentile(percent) == .milliseconds(expected))
    }

    @Test func `one sample is every percentile, none is zero`() {
        var samples = Samples()
        #expect(samples.percentile(99) == .zero)
        samples.add(from: Instant(nanoseconds: 5), to: Instant(nanoseconds: 12))
        #expect(samples.percentile(1) == .nanoseconds(7))
        #expect(samples.percentile(99) == .nanoseconds(7))
    }

    @Test(arguments: [([], 0), ([3], 3), ([3, 1, 2], 2), ([4, 1, 2, 3], 2.5)] as [([Double], Double)])
    func `the median is the middle`(values: [Double], expected: Double) {
        #expect(values.median == expected)
    }

    @Test(arguments: [
        (21_345.6, "21,346"), (123.4, "123"), (16.25, "16.2"), (1.234, "1.23"), (0.1834, "0.183"), (23, "23"),
        (-1_500_000, "-1,500,000"),
    ])
    func `numbers have the digits that mean something`(value: Double, expected: String) {
        #expect(Figure.text(value) == expected)
    }

    @Test func `rounds are shown with their range`() {
        #expect(Figure("register", "new", "/s", [30, 10, 20]).text == "20 (10–30)")
    }

    @Test func `a report has a line for each figure and complaint, in both forms`() throws {
        var report = Report(machine: Machine())
        report.add("hold", "held", "calls", 10_000)
        report.complain("lost \"one\"")
        #expect(report.table.contains("hold: held  10,000 calls\n\n!!! lost \"one\"\n"))
        let lines = try report.jsonLines().split(separator: "\n")
        #expect(lines.count == 3)
        #expect(
            lines[1] == #"{"benchmark":"hold","median":10000,"name":"held","rounds":[10000],"unit":"calls"}"#)
        #expect(lines[2] == #"{"complaint":"lost \"one\""}"#)
    }

    @Test(arguments: [
        (
            "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\ncpu family\t: 25\n",
            "AMD EPYC, family 26, model 2"
        ), ("model name\t: Cortex: A76\n", "Cortex: A76"), ("", "unknown"),
    ])
    func `a processor has its family, which distinguishes generations`(information: String, expected: String) {
        #expect(Machine.processor(of: information) == expected)
    }
}
