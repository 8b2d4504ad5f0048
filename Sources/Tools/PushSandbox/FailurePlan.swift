import JSON

/// Defines how pushes to a token fail.
struct FailurePlan {
    /// The status of the answer. With 200 and no reason, a push is judged as usual.
    var status: Int?
    /// The provider's reason; by default the usual one for the status.
    var reason: String?
    /// The timestamp in the answer 410 of APNs, in milliseconds.
    var timestamp: Int64?
    /// How often the plan is applied; always if it has no number.
    var times: Int64?
    var delay: Duration = .zero
    var fault: SandboxAnswer.Fault?
    /// The value of Retry-After, in seconds.
    var retryAfter: Int64?
    /// The token that FCM's legacy interface returns to replace the one that it was sent.
    var registrationID: String?

    init(status: Int, reason: String? = nil) {
        self.status = status
        self.reason = reason
    }

    /// Reads the plan in the body of a `PUT`. The error names the member that is unknown or out of its range.
    init(json bytes: [UInt8]) throws(Fault) {
        guard let members = JSONValue.object(in: bytes)?.members else { throw Fault(member: "no object") }
        for member in members {
            let value = member.value
            switch member.key {
            case "status": status = Int(try Self.number(member, 200...599))
            case "timestamp": timestamp = try Self.number(member, 0...Int64.max)
            case "times": times = try Self.number(member, 1...1_000_000)
            case "delay_ms": delay = .milliseconds(try Self.number(member, 0...600_000))
            case "retry_after": retryAfter = try Self.number(member, 0...86_400)
            case "reason": reason = try Self.text(member, 100)
            case "registration_id": registrationID = try Self.text(member, 4096)
            case "action":
                guard let fault = value.string.flatMap(SandboxAnswer.Fault.init) else {
                    throw Fault(member: member.key)
                }
                self.fault = fault
            default: throw Fault(member: member.key)
            }
        }
    }

    struct Fault: Error {
        let member: String
    }

    private static func number(_ member: JSONValue.Member, _ range: ClosedRange<Int64>) throws(Fault) -> Int64 {
        guard let number = member.value.integer, range.contains(number) else { throw Fault(member: member.key) }
        return number
    }

    private static func text(_ member: JSONValue.Member, _ limit: Int) throws(Fault) -> String? {
        guard let text = member.value.string, text.utf8.count <= limit else { throw Fault(member: member.key) }
        return text.isEmpty ? nil : text
    }

    /// Whether the provider refuses the push without judging it.
    var isRefusal: Bool { status.map { $0 != 200 || reason != nil } ?? (reason != nil) }
}
