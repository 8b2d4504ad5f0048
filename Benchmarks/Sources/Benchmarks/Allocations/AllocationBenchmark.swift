import Addressing
import Bytes
import ProxyCore
import SIPGrammar
import SIPMessage
import TestSupport

/// Counts the heap allocations that the message reader and the engine make for each step of a registration and of a
/// call.
enum AllocationBenchmark {
    private static let phone = Endpoint(.loopbackV4, 40_000)
    private static let caller = Endpoint(.loopbackV4, 40_001)
    private static let users = 1000

    static func run(
        _ options: BenchmarkOptions, _ allocationCount: @escaping () -> UInt64, into report: inout Report
    ) throws(BenchmarkError) {
        let counts = try counts(allocationCount)
        for (name, count) in counts { report.add("allocations", name, "each", count) }
        guard let file = options.limits else { return }
        for complaint in try AgreedLimits(contentsOf: file).complaints(about: counts, of: "allocations") {
            report.complain(complaint)
        }
    }

    /// Returns the mean number of allocations of each step over many users.
    static func counts(
        _ allocationCount: @escaping () -> UInt64
    ) throws(BenchmarkError) -> [(name: String, count: Double)] {
        let engine = CountedEngine(trusting: caller, counting: allocationCount)
        let register = MessageTexts.register(from: phone)
        let invite = MessageTexts.invite(from: caller)
        var counts: [(name: String, count: Double)] = []

        func step(_ name: String, _ body: (Int) throws(BenchmarkError) -> Void) throws(BenchmarkError) {
            let total = try engine.allocations { () throws(BenchmarkError) in
                for user in 0..<users { try body(user) }
            }
            counts.append((name, Double(total) / Double(users)))
        }

        func registration(_ cseq: Int) -> (Int) throws(BenchmarkError) -> [SIPRequest] {
            { user throws(BenchmarkError) in
                let branch = UInt64(cseq << 32 | user)
                let actions = engine.receive(register.message(user: user, cseq: cseq, branch: branch), from: phone)
                try expect(.response(200), in: actions, of: "REGISTER")
                return Sent.requests(in: actions)
            }
        }

        try step("register-first") { user throws(BenchmarkError) in _ = try registration(1)(user) }
        try step("register-refresh") { user throws(BenchmarkError) in _ = try registration(2)(user) }
        try step("invite-held") { user throws(BenchmarkError) in
            let actions = engine.receive(invite.message(user: user, branch: UInt64(user)), from: caller)
            try expect(.push, in: actions, of: "INVITE")
        }
        var delivered: [SIPRequest] = []
        try step("invite-delivered") { user throws(BenchmarkError) in
            let requests = try registration(3)(user)
            guard let request = requests.first else { throw BenchmarkError("a REGISTER does not release its INVITE") }
            delivered.append(request)
        }
        var answers: [SIPResponse] = []
        try step("invite-answered") { user throws(BenchmarkError) in
            for status in [180, 200] as [Status] {
                let bytes = SIPText.response(status, to: delivered[user], tag: "p", contact: "sip:u@\(phone)")
                answers += Sent.responses(in: engine.receive(bytes, from: phone)).filter { $0.status == .ok }
            }
            guard answers.count == user + 1 else { throw BenchmarkError("a 200 does not reach the caller") }
        }
        try step("ack") { user throws(BenchmarkError) in
            let ack = SIPText.dialogRequest(
                "ACK", cseq: 20, invite: delivered[user], answer: answers[user], at: caller, branch: "a\(user)")
            guard !Sent.requests(in: engine.receive(ack, from: caller)).isEmpty else {
                throw BenchmarkError("an ACK does not reach the phone")
            }
        }
        return counts
    }

    private enum Expected: Equatable {
        case response(Status), push
    }

    private static func expect(
        _ expected: Expected, in actions: [ProxyAction], of step: String
    ) throws(BenchmarkError) {
        let isThere =
            switch expected {
            case .response(let status): Sent.responses(in: actions).contains { $0.status == status }
            case .push: actions.contains { if case .push = $0 { true } else { false } }
            }
        guard isThere else { throw BenchmarkError("\(step) does not do what it should: \(actions)") }
    }
}

/// Finds the messages that the engine sends, among the engine's actions.
private enum Sent {
    static func requests(in actions: [ProxyAction]) -> [SIPRequest] {
        messages(in: actions).compactMap { if case .request(let request) = $0 { request } else { nil } }
    }

    static func responses(in actions: [ProxyAction]) -> [SIPResponse] {
        messages(in: actions).compactMap { if case .response(let response) = $0 { response } else { nil } }
    }

    private static func messages(in actions: [ProxyAction]) -> [ReadMessage] {
        actions.compactMap { action in
            guard case .send(let bytes, _) = action else { return nil }
            return MessageReader().read(bytes.span, isStream: false)
        }
    }
}
