package import Crypto
import HTTPServer
import JSON

/// Imitates push providers and receivers of webhooks: checks requests as they do, records pushes, and fails on request.
///
/// It does no input or output itself: it receives a request and returns an answer. Only one thread uses it.
package final class ProviderSemantics {
    package internal(set) var records: [PushRecord] = []
    package var recorded: (PushRecord) -> Void = { _ in }
    /// The origin of web push endpoints, `https://HOST:PORT`; `nil` for the address at which the subscription was
    /// requested.
    package var webPushOrigin: String?
    /// The secrets, one of which must have signed a webhook. Without secrets, signatures are not checked.
    package var webhookSecrets: [[UInt8]] = []

    var plans: [String: FailurePlan] = [:]
    /// The access tokens, with the Unix milliseconds of their expiry.
    var accessTokens: [String: Int64] = [:]
    var subscriptions: [String: WebPushSubscription] = [:]
    var feedback = FeedbackList()
    private var sent: UInt64 = 0
    let apnsKey: ProviderKey?
    let accountKey: ProviderKey?
    let clock: () -> Int64

    private static let recordLimit = 10_000
    /// How many bytes of each body are recorded, which is more than any provider accepts in one push.
    private static let recordedBodyLimit = 16 << 10
    static let planLimit = 10_000
    static let accessTokenLimit = 10_000
    static let subscriptionLimit = 10_000

    /// - Parameters:
    ///   - apnsKey: verifies the signatures of APNs tokens; without it only their form is checked.
    ///   - accountKey: the same for the assertions to Google's token service.
    ///   - clock: Unix milliseconds.
    package init(apnsKey: ProviderKey? = nil, accountKey: ProviderKey? = nil, clock: @escaping () -> Int64) {
        self.apnsKey = apnsKey
        self.accountKey = accountKey
        self.clock = clock
    }

    package func answer(_ request: SandboxRequest) -> SandboxAnswer {
        let path = request.path.utf8.split(separator: UInt8(ascii: "/")).map { FormText.decoded(Array($0)[...]) }
        if path.first == "sandbox", request.mayControl { return control(request, Array(path.dropFirst())) }
        if path.starts(with: ["3", "device"]), path.count <= 3 {
            return apns(request, token: path.count == 3 ? path[2] : "")
        }
        if path.count == 4, path.starts(with: ["v1", "projects"]), path[3] == "messages:send" {
            return fcm(request, project: path[2])
        }
        if path == ["fcm", "send"] { return legacy(request) }
        if path == ["token"] { return grant(request) }
        if path.first == "webpush", path.count == 2 { return webPush(request, id: path[1]) }
        if path == ["pnm2", "send"] { return mediate(request) }
        if path == ["pnm2"] { return mediate(request, isForm: true) }
        if path.first == "hook", path.count >= 2 { return receive(request, name: path[1]) }
        return SandboxAnswer(status: 404, json: .members([("reason", "BadPath")]))
    }

    // MARK: Failing

    /// The error in a request, in its provider's words.
    struct Refusal {
        let status: Int
        let reason: String
        var message = ""
        var timestamp: Int64?

        /// Whether it is a success after all: a plan may set another success status than the usual one.
        var isSuccess: Bool { (200..<300).contains(status) && reason.isEmpty }
    }

    /// The decision about one push.
    enum Verdict {
        /// The push was accepted under a unique message id, perhaps with a token for later pushes.
        case accepted(id: String, registrationID: String? = nil)
        case refused(Refusal)
    }

    /// The effects of a plan on an answer.
    struct Effects {
        var fault: SandboxAnswer.Fault?
        var delay: Duration = .zero
        var retryAfter: Int64?
        /// The connection is reset instead of an answer.
        var isSilent = false

        func applied(to answer: SandboxAnswer) -> SandboxAnswer {
            var answer = answer
            answer.fault = fault
            answer.delay = delay
            if let retryAfter { answer.headers["retry-after"] = "\(retryAfter)" }
            if isSilent { answer.status = 0 }
            return answer
        }

        /// Adds the effects for another push of the same request. The worst of each kind is used.
        mutating func add(_ other: Effects) {
            fault = fault ?? other.fault
            delay = max(delay, other.delay)
            retryAfter = retryAfter ?? other.retryAfter
            isSilent = isSilent || other.isSilent
        }
    }

    /// Judges a push: if it has no error, by the plan for its token. Only valid pushes use up a plan.
    func judge(_ token: String, _ refusal: Refusal?, _ effects: inout Effects) -> Verdict {
        judge([token], refusal, &effects)
    }

    /// Judges a push with several names, by the plan for the first name that has one.
    func judge(_ names: [String], _ refusal: Refusal?, _ effects: inout Effects) -> Verdict {
        sent += 1
        if let refusal { return .refused(refusal) }
        guard let plan = takePlan(for: names) else { return .accepted(id: "\(sent)") }
        let isSilent = plan.fault == .reset || (plan.fault == .goaway && plan.status == nil)
        effects.add(
            Effects(fault: plan.fault, delay: plan.delay, retryAfter: plan.retryAfter, isSilent: isSilent))
        guard plan.isRefusal else { return .accepted(id: "\(sent)", registrationID: plan.registrationID) }
        return .refused(Refusal(status: plan.status ?? 400, reason: plan.reason ?? "", timestamp: plan.timestamp))
    }

    /// A plan from the control resources, or from a token that names its own failure: `fail-503-...`.
    private func takePlan(for names: [String]) -> FailurePlan? {
        // A token of APNs is hexadecimal in either case.
        for key in names.flatMap({ [$0, $0.lowercased()] }) {
            guard var plan = plans[key] else { continue }
            guard let times = plan.times else { return plan }
            plan.times = times - 1
            plans[key] = times > 1 ? plan : nil
            return plan
        }
        for name in names {
            let words = name.split(separator: "-")
            guard words.count >= 2, words[0] == "fail", let status = Int(words[1]), (400...599).contains(status) else {
                continue
            }
            return FailurePlan(status: status)
        }
        return nil
    }

    // MARK: Recording

    /// - Parameters:
    ///   - request: the request.
    ///   - service: its service.
    ///   - interface: the interface of the service.
    ///   - token: the token of the push.
    ///   - type: the kind of the push.
    ///   - status: the status of the answer.
    ///   - reason: why the push was refused.
    ///   - headers: the names of the header fields to record; one that ends with a hyphen is a prefix.
    ///   - body: recorded instead of the original body.
    ///   - line: method and target, if they vary.
    func record(
        _ request: SandboxRequest, service: String, interface: String, token: String, type: String?, status: Int,
        reason: String?, headers: [String] = ["apns-"], body: [UInt8]? = nil, line: String? = nil
    ) {
        let credential = request.headers["authorization"].map { text in
            String(decoding: HashAlgorithm.sha256.hexDigest(of: Array(text.utf8)).prefix(12), as: UTF8.self)
        }
        let record = PushRecord(
            time: clock(), service: service, interface: interface, token: token, type: type ?? "other",
            headers: request.headers.filter { field in
                headers.contains { $0.hasSuffix("-") ? field.key.hasPrefix($0) : field.key == $0 }
            }, credential: credential ?? "",
            body: String(decoding: (body ?? request.body).prefix(Self.recordedBodyLimit), as: UTF8.self),
            status: status, reason: reason, connection: request.connection, version: request.version, line: line)
        if records.count >= Self.recordLimit { records.removeFirst(Self.recordLimit / 2) }
        records.append(record)
        recorded(record)
    }
}
