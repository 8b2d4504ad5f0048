package import Addressing
import Bytes
package import Crypto
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import JSON
import ProxyCore
import ProxyPolicy
package import ProxyRuntime
package import Reactor
import Routing
package import Telemetry

/// A node that did not answer an operator's question. The answer has no facts of this node.
package struct MissingNode: Codable, Hashable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "reason": .words("Why the node did not answer.")
    ]

    package var node: String
    package var reason: String

    package init(node: String, reason: String) { (self.node, self.reason) = (node, reason) }
}

/// The answers of the other nodes to one question.
package struct NodeAnswers<Answer: Sendable>: Sendable {
    package var answers: [(node: String, answer: Answer)]
    package var missing: [MissingNode]

    package init(_ answers: [(node: String, answer: Answer)] = [], missing: [MissingNode] = []) {
        (self.answers, self.missing) = (answers, missing)
    }
}

/// Asks the other nodes of the cluster about their calls and phones, with the certificate of this node. Nodes that have
/// gone lately are asked too, because they may run without the database.
///
/// All nodes are asked at the same time, and have a second to answer. A node is asked at its address for SIP, where it
/// chooses HTTP by ALPN.
///
/// - The class is `@unchecked Sendable`, because only the event loop uses its changing parts.
package final class NodeQuestions: @unchecked Sendable {
    /// The certificate of this node, and the authority of the cluster. The files are read for each connection.
    package struct Identity: Sendable {
        let own: TLSIdentity
        let authority: PEM

        package init(own: TLSIdentity, authority: PEM) { (self.own, self.authority) = (own, authority) }
    }

    /// The name of this node.
    package let own: String
    private let door: ShardDoor
    private let loop: EventLoop
    private let log: Log
    private let http: HTTPSession
    private let route: HTTPRoute
    private var silence = LogRateLimit(burst: 2, per: .seconds(60))

    private static let patience: Duration = .seconds(1)
    private static let longestAnswer = 16 << 20

    /// Prepares questions of the node with the name `own`. The parameter `source` is the address from which this node
    /// asks; `nil` lets the kernel choose.
    package init(
        of own: String, identity: Identity, source: IPAddress?, door: ShardDoor, loop: EventLoop, log: Log
    ) {
        (self.own, self.door, self.loop, self.log) = (own, door, loop, log)
        var route = HTTPRoute()
        route.version = .http1
        route.authority = identity.authority
        route.certificate = identity.own.certificate
        route.key = identity.own.key
        self.route = route
        var limits = HTTPSession.Limits()
        limits.source = source
        // The other node closes a silent connection after a minute.
        limits.idleSeconds = 30
        http = HTTPSession(on: loop, limits: limits, over: [HTTP1Transport.self])
    }

    /// Asks other nodes for a resource, whose path and query are percent-encoded, and returns all answers. The operator
    /// may reach `domains`. If `wanted` is not `nil`, only the nodes with these names are asked.
    package func ask<Answer: Decodable & Sendable>(
        _ resource: String, for domains: DomainScope, of wanted: Set<String>? = nil, as type: Answer.Type = Answer.self
    ) async -> NodeAnswers<Answer> {
        let nodes = await others().filter { wanted?.contains($0.node.name) ?? true }
        let requests = nodes.map { ($0, request("GET", resource, at: $0.node, domains)) }
        var result = NodeAnswers<Answer>()
        for (known, outcome) in await exchange(requests) {
            let name = known.node.name
            switch Self.read(outcome, as: type) {
            case .success(let answer): result.answers.append((name, answer))
            case .failure(let failure):
                let words = known.isAlive ? "" : "it has ended or does not reach the database: "
                result.missing.append(MissingNode(node: name, reason: words + failure.reason))
            }
        }
        for node in (wanted ?? []).subtracting(nodes.map(\.node.name)).sorted() where node != own {
            result.missing.append(MissingNode(node: node, reason: "no node has this name"))
        }
        result.answers.sort { $0.node < $1.node }
        result.missing.sort { $0.node < $1.node }
        if !result.missing.isEmpty { note(result.missing) }
        return result
    }

    /// Sends another node an order.
    ///
    /// - Throws: the problem of the other node, or a problem with status 504 if the node does not answer.
    package func order(
        _ method: String, _ resource: String, for domains: DomainScope, at name: String
    ) async throws(ServiceProblem) {
        guard let known = await others().first(where: { $0.node.name == name }) else {
            throw ServiceProblem(404, "no node is called \(name)")
        }
        for (_, outcome) in await exchange([(known, request(method, resource, at: known.node, domains))]) {
            switch outcome {
            case .success(let response) where response.status == 200: break
            case .success(let response):
                throw Self.problem(in: response)
                    ?? ServiceProblem(502, "the node \(name) answered with status \(response.status)")
            case .failure(let error):
                note([MissingNode(node: name, reason: error.sentence)])
                throw ServiceProblem(
                    504, "the node \(name) did not answer, so nobody knows whether it has obeyed",
                    detail: error.sentence)
            }
        }
    }

    /// Encodes a text for a path or a query.
    package static func encoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            let isPlain = byte.isASCIIDigit || byte.isASCIILetter
            if isPlain { bytes.append(byte) } else { bytes.append(percentEncoded: byte) }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Requests

    private func others() async -> [Nodes.Known] {
        await door.ask(.everything) { engine, now in engine.otherNodes(now: now) }
    }

    private func request(
        _ method: String, _ resource: String, at node: PeerNode, _ domains: DomainScope
    ) -> HTTPClientRequest {
        var request = HTTPClientRequest(method: method, url: "https://\(node.place)\(resource)")
        request.timeout = Self.patience
        request.connectTimeout = Self.patience
        request.responseLimit = Self.longestAnswer
        request.route = route
        if domains != .wholeDaemon { request.headers = [HTTPField(DomainScope.field, domains.text)] }
        return request
    }

    private typealias Outcome = Result<HTTPClientResponse, HTTPClientError>

    private func exchange(_ requests: [(Nodes.Known, HTTPClientRequest)]) async -> [(Nodes.Known, Outcome)] {
        guard !requests.isEmpty else { return [] }
        return await withCheckedContinuation { asker in
            loop.post { [http] in
                let round = Round(of: requests.count) { asker.resume(returning: $0) }
                for (node, request) in requests {
                    http.send(request) { round.take(node, $0) }
                }
            }
        }
    }

    /// Collects the outcomes of requests that were sent together.
    private final class Round {
        private var left: Int
        private var outcomes: [(Nodes.Known, Outcome)] = []
        private let finish: ([(Nodes.Known, Outcome)]) -> Void

        init(of count: Int, _ finish: @escaping ([(Nodes.Known, Outcome)]) -> Void) {
            left = count
            self.finish = finish
        }

        func take(_ node: Nodes.Known, _ outcome: Outcome) {
            outcomes.append((node, outcome))
            left -= 1
            if left == 0 { finish(outcomes) }
        }
    }

    // MARK: Answers

    private struct Failure: Error {
        let reason: String
    }

    private static func read<Answer: Decodable>(_ outcome: Outcome, as type: Answer.Type) -> Result<Answer, Failure> {
        switch outcome {
        case .failure(let error): return .failure(Failure(reason: error.sentence))
        case .success(let response):
            guard response.status == 200 else {
                return .failure(
                    Failure(reason: problem(in: response)?.title ?? "it answered with status \(response.status)"))
            }
            guard let answer = try? json(response.body)?.decoded() as Answer? else {
                return .failure(Failure(reason: "its answer is malformed; it may have another version"))
            }
            return .success(answer)
        }
    }

    private static func problem(in response: HTTPClientResponse) -> ServiceProblem? {
        try? json(response.body)?.decoded()
    }

    private static func json(_ body: [UInt8]) -> JSONValue? {
        var limits = JSONReader.Limits()
        limits.bytes = longestAnswer
        limits.values = longestAnswer
        return try? JSONValue(body, limits: limits)
    }

    private func note(_ missing: [MissingNode]) {
        loop.post { [self] in
            for node in missing {
                guard let suppressed = silence.admit(now: loop.now) else { continue }
                log.warning(
                    "a node of the cluster did not answer an operator's question, so the answer lacks its calls",
                    [.target: .text(node.node), .reason: .text(node.reason), .suppressed: .number(suppressed)])
            }
        }
    }
}
