package import Addressing
package import Reactor

/// Finds the SIP servers of a domain by RFC 3263, without blocking its loop. DNS answers are cached while they are
/// valid.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread, unless a method allows
///   any thread.
package final class DNSResolver: @unchecked Sendable {
    package typealias Completion = (Result<[ServerCandidate], ResolverError>) -> Void

    package let loop: EventLoop
    private var channel: DNSChannel?
    private var random: any RandomNumberGenerator
    private var cache = AnswerCache(capacity: DNSResolver.cacheCapacity)
    /// The searches that wait for DNS answers, by query.
    private var waiting: [DNSQuestion: [Search]] = [:]
    private var searchCount = 0

    private static let cacheCapacity = 4096
    private static let searchLimit = 1000

    private final class Search {
        let query: ServerQuery
        let completion: Completion
        var known: [DNSQuestion: DNSAnswer] = [:]
        var missing: Set<DNSQuestion> = []

        init(_ query: ServerQuery, _ completion: @escaping Completion) {
            self.query = query
            self.completion = completion
        }
    }

    /// Creates a resolver that asks the given name servers; `nil` for the system's. The generator `random` chooses
    /// among SRV records of equal priority.
    package init(
        on loop: EventLoop, servers: [Endpoint]? = nil, timeout: Duration = .seconds(2), tries: Int = 2,
        random: any RandomNumberGenerator = SystemRandomNumberGenerator()
    ) throws(SystemError) {
        self.loop = loop
        self.random = random
        channel = try DNSChannel(on: loop, servers: servers, timeout: timeout, tries: tries)
    }

    deinit {
        let remains = Remains(Self.searches(in: waiting))
        loop.dispose { remains.fail() }
    }

    /// Retains a released resolver's searches until they end on the loop's thread.
    ///
    /// - The type is `@unchecked Sendable`, because it moves to the loop and is used once.
    private final class Remains: @unchecked Sendable {
        private let searches: [Search]

        init(_ searches: [Search]) { self.searches = searches }

        func fail() {
            for search in searches { search.completion(.failure(.closed)) }
        }
    }

    /// Searches for the SIP servers of a query. The completion is called once, on the loop, with the servers or an
    /// error. If all DNS answers are cached, the completion is called before ``resolve(_:completion:)`` returns.
    package func resolve(_ query: ServerQuery, completion: @escaping Completion) {
        loop.checkThread()
        guard channel != nil else { return completion(.failure(.closed)) }
        guard searchCount < Self.searchLimit else { return completion(.failure(.overloaded)) }
        searchCount += 1
        advance(Search(query, completion))
    }

    /// Ends all searches with the error `closed`.
    package func close() {
        loop.checkThread()
        channel = nil
        let searches = Self.searches(in: waiting)
        waiting = [:]
        for search in searches { finish(search, .failure(.closed)) }
    }

    /// All searches that wait for a DNS answer, each only once.
    private static func searches(in waiting: [DNSQuestion: [Search]]) -> [Search] {
        var seen: Set<ObjectIdentifier> = []
        return waiting.values.flatMap { $0 }.filter { seen.insert(ObjectIdentifier($0)).inserted }
    }

    // MARK: Searching

    private func advance(_ search: Search) {
        while true {
            switch ServerSelection.step(for: search.query, known: search.known, using: &random) {
            case .found(let candidates): return finish(search, .success(candidates))
            case .failed(let error): return finish(search, .failure(error))
            case .ask(let questions):
                ask(questions, for: search)
                guard search.missing.isEmpty else { return }
            }
        }
    }

    /// Continues the search with the cached answers to the given queries. Queries without a cached answer are sent to
    /// the name servers, unless already sent, and the search waits.
    private func ask(_ questions: [DNSQuestion], for search: Search) {
        let now = loop.now
        for question in questions {
            if let answer = cache.answer(to: question, now: now) {
                search.known[question] = answer
                continue
            }
            search.missing.insert(question)
            let isUnderWay = waiting[question] != nil
            waiting[question, default: []].append(search)
            guard !isUnderWay else { continue }
            channel?.ask(question) { [weak self] answer, lifetime in
                self?.answered(question, answer, lifetime)
            }
        }
    }

    private func answered(_ question: DNSQuestion, _ answer: DNSAnswer, _ lifetime: Duration) {
        guard let searches = waiting.removeValue(forKey: question) else { return }
        cache.store(answer, to: question, timeToLive: lifetime, now: loop.now)
        for search in searches {
            search.known[question] = answer
            search.missing.remove(question)
            if search.missing.isEmpty { advance(search) }
        }
    }

    private func finish(_ search: Search, _ outcome: Result<[ServerCandidate], ResolverError>) {
        searchCount -= 1
        search.completion(outcome)
    }
}
