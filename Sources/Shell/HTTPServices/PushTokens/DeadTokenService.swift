import Bytes
import Collections
import HTTPSemantics
import HTTPServer
import JSON
import Persistence
import PushDelivery
import Reactor
import Telemetry
import Timekeeping

/// Reports dead tokens to application servers, and deletes old dead tokens from the store.
///
/// Reading the list deletes nothing, unlike with Apple's feedback service, so each client remembers how far it has
/// read.
final class DeadTokenService {
    private let store: any ProxyStore
    private let loop: EventLoop
    private let age: Duration
    private var timer: LoopTimer?

    private static let pageLimit = 10_000
    private static let defaultPage = 1000
    private static let pruneInterval: Duration = .seconds(3600)
    /// The maximum number of stored dead tokens, of any age.
    private static let rowLimit = 1_000_000

    init(store: any ProxyStore, loop: EventLoop, age: Duration) throws(SystemError) {
        self.store = store
        self.loop = loop
        self.age = age
        timer = try LoopTimer(on: loop) { [weak self] in self?.prune() }
        timer?.arm(at: loop.now + .seconds(60))
    }

    func prune() {
        store.record([.pruneDeadTokens(before: loop.moment.date + (.zero - age), keeping: Self.rowLimit)])
        timer?.arm(at: loop.now + Self.pruneInterval)
    }

    func register(in router: inout ServiceRouter) {
        let store = store
        router.add("GET", "/v1/dead-tokens", scope: .tokensRead, domains: .byDomain, described: Self.description) {
            call throws(ServiceProblem) in
            let page = try DeadTokenPage(call, defaultLimit: Self.defaultPage, limits: 1...Self.pageLimit)
            let domains = call.domains.hosts
            call.askStore {
                let tokens = try await store.deadTokens(
                    since: page.since, after: page.after, limit: page.limit, in: domains)
                call.answer(page.response(tokens))
            }
        }
    }

    private static let description = RouteDescription(
        "listDeadTokens", "Tokens whose contacts were removed because the provider no longer knows the app",
        detail: "In the order of their removal. Reading deletes nothing."
    )
    .query("since", "Unix seconds: only tokens recorded at that time or later.", .number(0...Int64.max / 1000))
    .query("after", "The `next` of the previous page.", .number(0...Int64.max))
    .query("limit", "The maximum number of tokens on a page.", .number(1...Int64(pageLimit)))
    .query("format", "The form of the answer. By default, the Accept field decides.", .choice(["json", "binary"]))
    .answer(200, "A page of tokens", DeadTokenPage.Report.self)
    .answer(200, "A page of tokens", .text, type: "application/octet-stream")
    .notRead()
}

extension ServiceProblem {
    package static var notRead: ServiceProblem {
        ServiceProblem(503, "the store cannot be read now", retryAfter: 5)
    }
}

/// A request for a page of dead tokens, and the format of the answer.
struct DeadTokenPage: Sendable {
    fileprivate struct Report: Codable {
        struct Token: Codable, DescribedBody {
            static let schemaName: String? = "DeadToken"
            static let notes: [String: JSONSchema] = ["source": .choice(["provider", "feedback"])]

            let token: String
            let provider: String
            let param: String
            let since: Int64
            let recorded: Int64
            let source: String
        }

        let tokens: [Token]
        let next: UInt64?
    }

    /// The start of the time range: tokens that were recorded earlier are not in the page.
    let since: UnixTime
    /// The value `next` of the previous page of dead push tokens.
    let after: PageCursor
    let limit: Int
    private let isBinary: Bool

    init(_ call: ServiceCall, defaultLimit: Int, limits: ClosedRange<Int>) throws(ServiceProblem) {
        since = UnixTime(seconds: try call.number("since", in: 0...Int64.max / 1000) ?? 0)
        after = try call.cursor()
        limit = try call.number("limit", in: limits) ?? defaultLimit
        switch call.request.query("format") {
        case "binary": isBinary = true
        case "json": isBinary = false
        case nil:
            isBinary = (call.request.field("accept") ?? "").lowercased().contains("application/octet-stream")
        case _?: throw ServiceProblem(400, "format must be json or binary")
        }
    }

    func response(_ page: Page<DeadToken>) -> HTTPResponse {
        let next = page.next?.number
        var response: HTTPResponse
        if isBinary {
            var bytes: [UInt8] = []
            for dead in page.elements { dead.appendFeedbackRecords(to: &bytes) }
            response = HTTPResponse(type: "application/octet-stream", body: bytes)
        } else {
            response = HTTPResponse(type: "application/json", body: Self.json(page.elements, next: next))
        }
        response.fields.append(HTTPField("Cache-Control", "no-store"))
        if let next {
            let format = isBinary ? "&format=binary" : ""
            let link = "</v1/dead-tokens?since=\(since.seconds)&after=\(next)&limit=\(limit)\(format)>; rel=\"next\""
            response.fields.append(HTTPField("Link", link))
        }
        return response
    }

    private static func json(_ tokens: [DeadToken], next: UInt64?) -> [UInt8] {
        let tokens = tokens.map { dead in
            Report.Token(
                token: dead.token.prid.string, provider: dead.token.provider.rawValue,
                param: dead.token.param.string, since: dead.since.seconds, recorded: dead.recordedAt.seconds,
                source: dead.source.rawValue)
        }
        return (try? JSONValue(of: Report(tokens: tokens, next: next)))?.bytes ?? []
    }
}
