package import Crypto
import JSON

/// What Apple and Google would say to a push: checks requests as they do, keeps what was sent, fails as told.
///
/// No I/O: a request comes in, an answer goes out. Used by one thread.
package final class ProviderSemantics {
    package internal(set) var records: [PushRecord] = []
    package var recorded: (PushRecord) -> Void = { _ in }

    var plans: [String: FailurePlan] = [:]
    /// With the Unix milliseconds at which each ends.
    var accessTokens: [String: Int64] = [:]
    private var sent: UInt64 = 0
    let apnsKey: ProviderKey?
    let accountKey: ProviderKey?
    let clock: () -> Int64

    private static let recordLimit = 10_000
    /// Of each body; more than any provider takes in one push.
    private static let recordedBodyLimit = 16 << 10
    static let planLimit = 10_000
    static let accessTokenLimit = 10_000

    /// - Parameters:
    ///   - apnsKey: verifies the signatures of APNs tokens; without it only their form is looked at.
    ///   - accountKey: the same for the assertions to Google's token service.
    ///   - clock: Unix milliseconds.
    package init(apnsKey: ProviderKey? = nil, accountKey: ProviderKey? = nil, clock: @escaping () -> Int64) {
        self.apnsKey = apnsKey
        self.accountKey = accountKey
        self.clock = clock
    }

    package func answer(_ request: SandboxRequest) -> SandboxAnswer {
        let path = request.path.split(separator: "/").map { FormText.decoded($0) }
        if path.first == "sandbox", request.mayControl { return control(request, Array(path.dropFirst())) }
        if path.starts(with: ["3", "device"]), path.count <= 3 {
            return apns(request, token: path.count == 3 ? path[2] : "")
        }
        if path.count == 4, path.starts(with: ["v1", "projects"]), path[3] == "messages:send" {
            return fcm(request, project: path[2])
        }
        if path == ["fcm", "send"] { return legacy(request) }
        if path == ["token"] { return grant(request) }
        return SandboxAnswer(status: 404, json: .object([("reason", "BadPath")]))
    }

    // MARK: Failing

    /// What is wrong with a request, in its provider's words.
    struct Refusal {
        let status: Int
        let reason: String
        var message = ""
        var timestamp: Int64?
    }

    /// What was decided about one push.
    enum Verdict {
        /// The text is a message id, unlike any other.
        case accepted(id: String)
        case refused(Refusal)
    }

    /// What a plan adds to an answer.
    struct Effects {
        var fault: SandboxAnswer.Fault?
        var delay: Duration = .zero
        var retryAfter: Int64?
        /// The connection breaks instead of an answer.
        var isSilent = false

        func applied(to answer: SandboxAnswer) -> SandboxAnswer {
            var answer = answer
            answer.fault = fault
            answer.delay = delay
            if let retryAfter { answer.headers["retry-after"] = "\(retryAfter)" }
            if isSilent { answer.status = 0 }
            return answer
        }

        /// Of several pushes in one request, the worst of each.
        mutating func add(_ other: Effects) {
            fault = fault ?? other.fault
            delay = max(delay, other.delay)
            retryAfter = retryAfter ?? other.retryAfter
            isSilent = isSilent || other.isSilent
        }
    }

    /// Judges a push that may be faulty, by the plan for its token when it is not. A plan is used up by pushes without
    /// fault only.
    func judge(_ token: String, _ refusal: Refusal?, _ effects: inout Effects) -> Verdict {
        sent += 1
        if let refusal { return .refused(refusal) }
        guard let plan = takePlan(for: token) else { return .accepted(id: "\(sent)") }
        let isSilent = plan.fault == .reset || (plan.fault == .goaway && plan.status == nil)
        effects.add(
            Effects(fault: plan.fault, delay: plan.delay, retryAfter: plan.retryAfter, isSilent: isSilent))
        guard plan.isRefusal else { return .accepted(id: "\(sent)") }
        return .refused(Refusal(status: plan.status ?? 400, reason: plan.reason ?? "", timestamp: plan.timestamp))
    }

    /// A plan made over the control resources, or a token that says itself how it fails: `fail-503-...`.
    private func takePlan(for token: String) -> FailurePlan? {
        // A token of APNs is hexadecimal in either case.
        for key in [token, token.lowercased()] {
            guard var plan = plans[key] else { continue }
            guard let times = plan.times else { return plan }
            plan.times = times - 1
            plans[key] = times > 1 ? plan : nil
            return plan
        }
        let words = token.split(separator: "-")
        guard words.count >= 2, words[0] == "fail", let status = Int(words[1]), (400...599).contains(status) else {
            return nil
        }
        return FailurePlan(status: status)
    }

    // MARK: Recording

    func record(
        _ request: SandboxRequest, service: String, interface: String, token: String, type: String?, status: Int,
        reason: String?
    ) {
        let credential = request.headers["authorization"].map { text in
            String(decoding: HashAlgorithm.sha256.hexDigest(of: Array(text.utf8)).prefix(12), as: UTF8.self)
        }
        let record = PushRecord(
            time: clock(), service: service, interface: interface, token: token, type: type ?? "other",
            headers: request.headers.filter { $0.key.hasPrefix("apns-") }, credential: credential ?? "",
            body: String(decoding: request.body.prefix(Self.recordedBodyLimit), as: UTF8.self), status: status,
            reason: reason,
            connection: request.connection, version: request.version)
        if records.count >= Self.recordLimit { records.removeFirst(Self.recordLimit / 2) }
        records.append(record)
        recorded(record)
    }
}
