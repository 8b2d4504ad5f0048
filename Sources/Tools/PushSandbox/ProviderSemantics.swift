package import Crypto
import HTTPServer
import JSON

/// Imitates push providers and receivers of webhooks. The sandbox checks requests as the providers do, records pushes,
/// and fails if a test asks for that.
///
/// This type performs no I/O: it takes a request and returns an answer. Only one thread uses this object.
package final class ProviderSemantics {
    package internal(set) var records: [PushRecord] = []
    package var recorded: (PushRecord) -> Void = { _ in }
    /// The requests by which a client only tested its credentials, without reaching a device.
    package internal(set) var trials: [PushRecord] = []
    /// The topics to which the APNs key may send; `nil` for all topics.
    package var topics: Set<String>?
    /// The projects for which the service account may send; `nil` for all projects.
    package var projects: Set<String>?
    /// The origin of web push endpoints, `https://HOST:PORT`. If the origin is `nil`, an endpoint has the address at
    /// which its subscription was requested.
    package var webPushOrigin: String?
    /// The secrets of webhooks. Each webhook must be signed by one of these secrets. If the list is empty, signatures
    /// are not checked.
    package var webhookSecrets: [[UInt8]] = []

    var plans: [String: FailurePlan] = [:]
    /// The access tokens that the token service has issued, with the expiry of each in Unix milliseconds.
    var accessTokens: [String: Int64] = [:]
    var subscriptions: [String: WebPushSubscription] = [:]
    var feedback = FeedbackList()
    private var sent: UInt64 = 0
    let apnsKey: ProviderKey?
    let accountKey: ProviderKey?
    let clock: () -> Int64

    private static let recordLimit = 10_000
    /// How many bytes of each body are recorded. No provider accepts a longer body.
    private static let recordedBodyLimit = 16 << 10
    static let planLimit = 10_000
    static let accessTokenLimit = 10_000
    static let subscriptionLimit = 10_000

    /// Makes an imitation of all providers.
    ///
    /// - Parameters:
    ///   - apnsKey: verifies the signatures of APNs tokens. Without this key, only the form of tokens is checked.
    ///   - accountKey: verifies the signatures of assertions to Google's token service. Without this key, only the form
    ///     of assertions is checked.
    ///   - clock: returns Unix milliseconds.
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

    // MARK: Planned failures

    /// Why a request is refused, in the words of its provider.
    struct Refusal {
        let status: Int
        let reason: String
        var message = ""
        var timestamp: Int64?

        /// Whether the plan accepts the push. A plan may set another success status than the usual one, such as 201.
        var isSuccess: Bool { (200..<300).contains(status) && reason.isEmpty }
    }

    /// The sandbox's decision about one push.
    enum Verdict {
        /// The push was accepted. The answer has a unique message id; `registrationID` is the token for later pushes.
        case accepted(id: String, registrationID: String? = nil)
        case refused(Refusal)
    }

    /// The changes that a failure plan makes to an answer.
    struct Effects {
        var fault: SandboxAnswer.Fault?
        var delay: Duration = .zero
        var retryAfter: Int64?
        /// Whether the connection is reset without an answer.
        var isSilent = false

        func applied(to answer: SandboxAnswer) -> SandboxAnswer {
            var answer = answer
            answer.fault = fault
            answer.delay = delay
            if let retryAfter { answer.headers["retry-after"] = "\(retryAfter)" }
            if isSilent { answer.status = 0 }
            return answer
        }

        /// Adds the effects for another push of the same request. The worse effect wins.
        mutating func add(_ other: Effects) {
            fault = fault ?? other.fault
            delay = max(delay, other.delay)
            retryAfter = retryAfter ?? other.retryAfter
            isSilent = isSilent || other.isSilent
        }
    }

    /// Judges a push. If the push is valid, the plan for its token applies. An invalid push does not use up a plan.
    func judge(_ token: String, _ refusal: Refusal?, _ effects: inout Effects) -> Verdict {
        judge([token], refusal, &effects)
    }

    /// Judges a push that has several names, such as a token and a user. The plan of the first name that has a plan
    /// applies.
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

    /// The plan for the first of these names that has a plan. A plan was set by a control request, or is part of the
    /// token, such as `fail-503-...`.
    private func takePlan(for names: [String]) -> FailurePlan? {
        // An APNs token may have hexadecimal digits in upper or lower case.
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

    /// Records a push.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - service: the service to which the push was sent.
    ///   - interface: the interface of the service.
    ///   - token: the token of the push.
    ///   - type: the kind of the push.
    ///   - status: the status of the answer.
    ///   - reason: why the push was refused.
    ///   - headers: the names of the header fields to record. A name that ends with a hyphen stands for all names with
    ///     this prefix.
    ///   - body: recorded instead of the original body.
    ///   - line: the method and the target, if they can differ between requests.
    ///   - isTrial: whether the request only tests credentials.
    func record(
        _ request: SandboxRequest, service: String, interface: String, token: String, type: String?, status: Int,
        reason: String?, headers: [String] = ["apns-"], body: [UInt8]? = nil, line: String? = nil, isTrial: Bool = false
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
        guard !isTrial else {
            if trials.count >= Self.recordLimit { trials.removeFirst(Self.recordLimit / 2) }
            return trials.append(record)
        }
        if records.count >= Self.recordLimit { records.removeFirst(Self.recordLimit / 2) }
        records.append(record)
        recorded(record)
    }
}
