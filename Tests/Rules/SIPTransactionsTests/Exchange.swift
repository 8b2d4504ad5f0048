import Addressing
import SIPGrammar
import SIPTransactions
import TestSupport

/// A story of one transaction: its events in their order, each with the outputs that it must cause. Equal outputs in a
/// row are counted, as in `6 × send INVITE`.
typealias Exchange = Story<TableFixture, String>

extension Exchange {
    init(_ name: String, _ steps: Step...) { self.init(name, steps: steps) { TableFixture() } }
}

extension Exchange.Step {
    private static func doing(
        _ name: String, _ expected: [String], _ act: @escaping @Sendable (TableFixture) -> Void
    ) -> Self {
        Self(name, expected) {
            act($0)
            return $0.countedOutputs()
        }
    }

    // MARK: Clients

    static func send(_ method: String, over flow: Flow = udp, _ expected: String...) -> Self {
        doing("send \(method)", expected) { $0.client = try? $0.send(method, on: flow) }
    }

    /// Receives a response to the last request that was sent.
    static func response(_ status: Int, tag: String = "t1", _ expected: String...) -> Self {
        doing("\(status)", expected) { $0.receive(status, $0.client?.branch ?? "", $0.method, toTag: tag) }
    }

    static func cancelAnswered(_ expected: String...) -> Self {
        doing("200 to the CANCEL", expected) { $0.receive(200, $0.client?.branch ?? "", "CANCEL") }
    }

    static func cancel(_ expected: String...) -> Self {
        doing("cancel", expected) { if let id = $0.client?.id { $0.cancel(id) } }
    }

    // MARK: Servers

    /// A received request. The first of the expected words is the table's classification of the request.
    static func request(_ method: String, over flow: Flow = udp, _ expected: String...) -> Self {
        Self(method, expected) { fixture in
            let match = fixture.receive(TestMessage(method), on: flow)
            if case .new(let id) = match { fixture.server = id }
            return [match.word] + fixture.countedOutputs()
        }
    }

    /// Answers the last new request with the given status.
    static func respond(_ status: Status, _ expected: String...) -> Self {
        doing("respond \(status)", expected) { if let id = $0.server { $0.respond(id, status) } }
    }

    // MARK: Clients and servers

    /// Advances the clock to `seconds` after the start.
    static func until(_ seconds: Double, _ expected: String...) -> Self {
        doing("until \(seconds) s", expected) { $0.advance(to: .milliseconds(Int64(seconds * 1000))) }
    }

    /// Expects that the table is empty.
    static var empty: Self { Self("empty", []) { $0.isEmpty ? [] : ["not empty"] } }

    /// Expects that the table has no deadline.
    static var timeless: Self { Self("no deadline", []) { $0.table.nextDeadline == nil ? [] : ["a deadline"] } }
}

extension TableFixture.Match {
    fileprivate var word: String {
        switch self {
        case .new: "new"
        case .cancel(_, of: let invite): invite == nil ? "cancels nothing" : "cancels"
        case .absorbed: "absorbed"
        case .acknowledged: "acknowledged"
        case .endToEndACK: "for the core"
        case .overloaded: "overloaded"
        }
    }
}

extension TableFixture {
    fileprivate func countedOutputs() -> [String] {
        var counted: [(output: String, count: Int)] = []
        for output in outputs() {
            let count = counted.last?.output == output ? counted.removeLast().count : 0
            counted.append((output, count + 1))
        }
        return counted.map { $0.count == 1 ? $0.output : "\($0.count) × \($0.output)" }
    }
}
