/// One row of a test table: events, and the output lines that each event must cause.
package struct Story<Stage, Line: Equatable & Sendable>: Sendable, CustomStringConvertible {
    /// The name of the row in the test's table.
    package let description: String
    private let stage: @Sendable () -> Stage
    private let steps: [Step]

    package init(_ name: String, on stage: @autoclosure @escaping @Sendable () -> Stage, _ steps: Step...) {
        self.init(name, steps: steps, stage)
    }

    package init(_ name: String, steps: [Step], _ stage: @escaping @Sendable () -> Stage) {
        description = name
        self.stage = stage
        self.steps = steps
    }

    /// A sentence for each step that caused other lines than expected.
    package var faults: [String] {
        var stage = stage()
        var faults: [String] = []
        for (number, step) in steps.enumerated() {
            let said = step.run(&stage)
            if !step.holds(said) {
                faults.append("\(description): step \(number + 1), \(step.name), says \(said), not \(step.wanted)")
            }
        }
        return faults
    }

    /// One event, with all output lines that it must cause.
    package struct Step: Sendable {
        fileprivate let name: String
        fileprivate let run: @Sendable (inout Stage) -> [Line]
        fileprivate var wanted: String
        fileprivate var holds: @Sendable ([Line]) -> Bool

        package init(_ name: String, _ lines: [Line], _ run: @escaping @Sendable (inout Stage) -> [Line]) {
            self.name = name
            self.run = run
            wanted = "\(lines)"
            holds = { $0 == lines }
        }

        /// Replaces the expectation. The closure `holds` checks the lines, and `wanted` describes the expected lines.
        package func saying(_ wanted: String, _ holds: @escaping @Sendable ([Line]) -> Bool) -> Self {
            var step = self
            step.wanted = wanted
            step.holds = holds
            return step
        }

        package var unseen: Self { saying("anything") { _ in true } }

        package func including(_ lines: Line...) -> Self {
            saying("\(lines) among others") { said in lines.allSatisfy { said.contains($0) } }
        }

        package func times(_ count: Int, _ line: Line) -> Self {
            saying("\(count) × \(line)") { said in said.count { $0 == line } == count }
        }
    }
}

extension Story.Step where Line == String {
    /// Expects that the lines that begin with `start` are exactly the given lines.
    package func only(_ start: String, _ lines: [String]) -> Self {
        saying("\(lines) of \(start)") { said in said.filter { $0.hasPrefix(start) } == lines }
    }

    package func without(_ start: String) -> Self { only(start, []) }
}
