package import Crypto
import HTTPServer
import JSON

/// Imitates push providers and receivers of webhooks. Requests are checked as by the real providers, and recorded;
/// tests can make pushes fail.
///
/// The type does no input or output: it takes a request and returns an answer. Only one thread uses a
/// ``ProviderSemantics``.
package final class ProviderSemantics {
    package internal(set) var records: [PushRecord] = []
    package var recorded: (PushRecord) -> Void = { _ in }
    /// The requests that only tested credentials and reached no device.
    package internal(set) var trials: [PushRecord] = []
    /// The topics of the APNs key; `nil` for all.
    package var topics: Set<String>?
    /// The Firebase projects of the service account; `nil` for all.
    package var projects: Set<String>?
    /// The origin in the URLs of web push subscriptions, `https://HOST:PORT`; `nil` for the address of the request.
    package var webPushOrigin: String?
    /// The secrets with which webhooks must be signed; if empty, signatures are not checked.
    package var webhookSecrets: [[UInt8]] = []

    var plans: [String: FailurePlan] = [:]
    /// The access tokens of the imitated token service, each with its expiry in Unix milliseconds.
    var accessTokens: [String: Int64] = [:]
    /// The access tokens that the imitated token service of Huawei has issued.
    var huaweiTokens: [String: HuaweiGrant] = [:]
    var subscriptions: [String: WebPushSubscription] = [:]
    var feedback = FeedbackList()
    private var sent: UInt64 = 0
    let apnsKey: ProviderKey?
    let accountKey: ProviderKey?
    let clock: () -> Int64

    private static let recordLimit = 10_000
    /// The maximum number of recorded bytes of a body; no provider accepts a longer body.
    private static let recordedBodyLimit = 16 << 10
    static let planLimit = 10_000
    static let accessTokenLimit = 10_000
    static let subscriptionLimit = 10_000

    /// Creates an imitation of all push providers.
    ///
    /// - Parameters:
    ///   - apnsKey: the key that must have signed tokens for APNs; `nil` to check only their form.
    ///   - accountKey: the key that must have signed assertions for Google's token service; `nil` to check only their
    ///     form.
    ///   - clock: returns the present time in Unix milliseconds.
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
            return Self.isForRuStore(request)
                ? ruStore(request, project: path[2]) : fcm(request, project: path[2])
        }
        if path.count == 3, path[0] == "v1", path[2] == "messages:send" { return huawei(request, app: path[1]) }
        if path == ["oauth2", "v3", "token"] { return grantToClient(request) }
        if path == ["fcm", "send"] { return legacy(request) }
        if path == ["token"] { return grant(request) }
        if path.first == "webpush", path.count == 2 { return webPush(request, id: path[1]) }
        if path.first == "up", path.count == 2 {
            return request.method == "GET" ? unifiedPushVersion() : webPush(request, id: path[1], at: .unifiedPush)
        }
        if path == ["pnm2", "send"] { return mediate(request) }
        if path == ["pnm2"] { return mediate(request, isForm: true) }
        if path.first == "hook", path.count >= 2 { return receive(request, name: path[1]) }
        return SandboxAnswer(status: 404, json: .members([("reason", "BadPath")]))
    }

    // MARK: Planned failures

    /// Why a push is refused, in the words of the imitated provider.
    struct Refusal {
        let status: Int
        let reason: String
        var message = ""
        var timestamp: Int64?

        /// Whether a failure plan answers with success, for example with 201.
        var isSuccess: Bool { (200..<300).contains(status) && reason.isEmpty }
    }

    /// The sandbox's decision about one push.
    enum Verdict {
        /// The push was accepted, and its answer contains `id`. A failure plan's `registrationID` is the token for
        /// later pushes.
        case accepted(id: String, registrationID: String? = nil)
        case refused(Refusal)
    }

    /// The changes that failure plans make to an answer.
    struct Effects {
        var fault: SandboxAnswer.Fault?
        var delay: Duration = .zero
        var retryAfter: Int64?
        /// Whether no answer is sent, and the connection is reset or gets a GOAWAY.
        var isSilent = false

        func applied(to answer: SandboxAnswer) -> SandboxAnswer {
            var answer = answer
            answer.fault = fault
            answer.delay = delay
            if let retryAfter { answer.headers["retry-after"] = "\(retryAfter)" }
            if isSilent { answer.status = 0 }
            return answer
        }

        /// Adds the effects of another push in the same request; the worse effect applies.
        mutating func add(_ other: Effects) {
            fault = fault ?? other.fault
            delay = max(delay, other.delay)
            retryAfter = retryAfter ?? other.retryAfter
            isSilent = isSilent || other.isSilent
        }
    }

    /// Decides whether the sandbox accepts a push. An incorrect push is always refused, and does not use up a failure
    /// plan. For a correct push, the failure plan of its token decides.
    func judge(_ token: String, _ refusal: Refusal?, _ effects: inout Effects) -> Verdict {
        judge([token], refusal, &effects)
    }

    /// Decides whether the sandbox accepts a push with several names, such as a token and a user. The first name with a
    /// failure plan decides.
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

    /// Returns the failure plan of the first name that has one, and counts its use. A control request has set the
    /// failure plan, or the name itself is a failure plan, such as `fail-503-...`.
    private func takePlan(for names: [String]) -> FailurePlan? {
        // A plan is looked up in both spellings, because APNs tokens may be in upper or lower case.
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

    /// Records a push, and calls ``recorded``.
    ///
    /// - Parameters:
    ///   - request: the request that contained the push.
    ///   - service: the imitated provider.
    ///   - interface: the interface of the provider that was used.
    ///   - token: the token to which the push was sent.
    ///   - type: the kind of push.
    ///   - status: the status of the answer.
    ///   - reason: why the push was refused; `nil` if the push was accepted.
    ///   - headers: the header fields to record; a name that ends with a hyphen stands for all names that begin with
    ///     it.
    ///   - body: the text to record in place of the request's body.
    ///   - line: the method and the target of the request, if they vary.
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
