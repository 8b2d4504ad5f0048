import Addressing
import Bytes
import Registration
import Testing
import Timekeeping

/// Tests the limits of wrong passwords of two nodes that exchange their counts once a second.
@Suite struct `Limits of wrong passwords at two nodes` {
    private final class Nodes {
        private var limits: [LoginLimit]
        private var untold: [UntoldCounts?]
        private var now = Instant(nanoseconds: 1_000_000_000)

        init(secrets: [UInt64] = [1, 1]) {
            limits = secrets.map { LoginLimit(perSource: 10, perUser: 30, secret: SipHash.Key(low: $0, high: 2)) }
            untold = secrets.map { _ in UntoldCounts() }
        }

        func attempt(_ source: IPAddress?, _ user: String?, isAtHome: Bool = false) -> LoginLimit.Attempt {
            LoginLimit.Attempt(
                from: source,
                for: user.map { AddressOfRecord(user: ByteString($0), host: ByteString("example.net")) },
                isAtHome: isAtHome)
        }

        /// Tries a wrong password at a node; returns false if the node does not check the password.
        func guess(_ attempt: LoginLimit.Attempt, at node: Int) -> Bool {
            guard limits[node].wait(for: attempt, now: now) == nil else { return false }
            limits[node].failed(attempt, now: now, untold: &untold[node])
            return true
        }

        /// One second passes, and each node learns the counts of the other node.
        func beat() {
            now = now + .seconds(1)
            let told = untold.indices.map { untold[$0]?.take(now: now).counts ?? [] }
            for node in limits.indices {
                for count in told[1 - node] { limits[node].add(count, now: now) }
            }
        }
    }

    private let here = IPAddress(v4: 0xc000_0201)

    @Test func `a source that guesses at both nodes has the guesses of one node, over ten minutes`() {
        let nodes = Nodes()
        var checked = 0
        for second in 0..<600 {
            // The user changes, so that only the limit of the source matters.
            for node in 0..<2 where nodes.guess(nodes.attempt(here, "u\(second)-\(node)"), at: node) { checked += 1 }
            nodes.beat()
        }
        // Ten guesses at once, and ten in each minute. Within a second, each node can admit one more guess.
        #expect((108...112).contains(checked))
    }

    @Test func `guesses at one user from many sources at both nodes have one limit`() {
        let nodes = Nodes()
        var checked = 0
        for second in 0..<20 {
            for guess in 0..<10 {
                let source = IPAddress(v4: UInt32(second * 10 + guess))
                if nodes.guess(nodes.attempt(source, "bob"), at: guess % 2) { checked += 1 }
            }
            nodes.beat()
        }
        #expect((38...50).contains(checked))
    }

    @Test func `where the user has authenticated before, the nodes count together too`() {
        let nodes = Nodes()
        var checked = 0
        for _ in 0..<10 {
            for guess in 0..<10 where nodes.guess(nodes.attempt(here, "bob", isAtHome: true), at: guess % 2) {
                checked += 1
            }
            nodes.beat()
        }
        #expect((34...46).contains(checked))
    }

    @Test func `one user's count is not another's, nor the count of the user's addresses`() {
        let nodes = Nodes()
        for _ in 0..<30 { _ = nodes.guess(nodes.attempt(nil, "bob"), at: 0) }
        nodes.beat()
        #expect(!nodes.guess(nodes.attempt(nil, "bob"), at: 1))
        #expect(nodes.guess(nodes.attempt(nil, "alice"), at: 1))
        #expect(nodes.guess(nodes.attempt(here, "bob", isAtHome: true), at: 1))
    }

    @Test func `hashes under another key stand for nobody`() {
        let nodes = Nodes(secrets: [1, 3])
        for _ in 0..<10 { _ = nodes.guess(nodes.attempt(here, nil), at: 0) }
        nodes.beat()
        #expect(nodes.guess(nodes.attempt(here, nil), at: 1))
    }
}
