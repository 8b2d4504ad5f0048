import HTTPServices
import JSON
import Testing

@testable import Control

@Suite("The answers of several nodes")
struct JoinedAnswersTests {
    private func call(_ id: UInt64, at node: String) -> HeldCallReport {
        HeldCallReport(
            id: id, callRef: "ref\(id)", aor: "bob@example.net", callID: "c\(id)@\(node)", caller: "103", receivedAt: 0,
            ringsUntil: 30, sleeping: 1, ringing: 0, sleepingDevices: ["abcde"], ringingDevices: [], laterDevices: [],
            node: node)
    }

    /// A page as a node returns it.
    private func page(_ ids: [UInt64], at node: String, after: UInt64, limit: Int) -> HeldCallPage {
        let shown = ids.filter { $0 > after }.sorted().prefix(limit)
        return HeldCallPage(
            calls: shown.map { call($0, at: node) }, next: shown.count == limit ? shown.last : nil, total: ids.count)
    }

    private func pages(_ lists: [String: [UInt64]], limit: Int) -> [HeldCallPage] {
        var (pages, after): ([HeldCallPage], UInt64) = ([], 0)
        repeat {
            let others = lists.filter { $0.key != "a" }.sorted { $0.key < $1.key }.map { name, ids in
                (node: name, answer: page(ids, at: "?", after: after, limit: limit))
            }
            let own = page(lists["a"] ?? [], at: "a", after: after, limit: limit)
            pages.append(own.joined(with: NodeAnswers(others), limit: limit))
            after = pages.last?.next ?? .max
        } while after != .max && pages.count < 1000
        return pages
    }

    @Test(arguments: [1, 2, 3, 7, 1000])
    func `the pages have each call of each node once, although ids of nodes are equal`(limit: Int) {
        let lists: [String: [UInt64]] = [
            "a": [1, 2, 3, 4, 50, 51, 52], "b": [2, 3, 4, 5, 6], "c": [], "d": [4, 400, 401, 402, 403, 404, 405, 406],
        ]
        let found = pages(lists, limit: limit).flatMap(\.calls).map { "\($0.node ?? "-") \($0.id)" }
        let wanted = lists.flatMap { node, ids in ids.map { "\(node) \($0)" } }
        #expect(found.sorted() == wanted.sorted())
        #expect(pages(lists, limit: limit).allSatisfy { $0.total == 20 && $0.calls.count <= limit + 3 })
    }

    @Test func `a page of another version may have more members, and lack optional ones`() throws {
        let text = """
            {"calls": [{"id": 7, "callRef": "r", "aor": "bob@example.net", "callID": "c", "caller": "103", "receivedAt": 0,
            "ringsUntil": 30, "sleeping": 1, "ringing": 0, "sleepingDevices": [], "ringingDevices": [],
            "laterDevices": [], "colour": {"of": ["a", "newer", "version"]}}], "later": 1}
            """
        let page = try JSONValue(Array(text.utf8)).decoded(as: HeldCallPage.self)
        #expect(page.calls.map(\.id) == [7] && page.next == nil && page.total == nil)
    }

    @Test func `a page names the nodes that did not answer`() {
        let missing = [MissingNode(node: "b", reason: "no answer in time")]
        let joined = page([1], at: "a", after: 0, limit: 10).joined(with: NodeAnswers(missing: missing), limit: 10)
        #expect(joined.missingNodes == missing && joined.calls.count == 1)
        #expect(page([1], at: "a", after: 0, limit: 10).joined(with: NodeAnswers(), limit: 10).missingNodes == nil)
    }

    @Test func `numbers of a hostile node do not stop this node`() {
        var odd = page([1], at: "b", after: 0, limit: 10)
        odd.total = .max
        odd.next = 0
        let joined = page([1], at: "a", after: 0, limit: 10).joined(with: NodeAnswers([("b", odd)]), limit: 10)
        #expect(joined.next == 0)
        let none = page([], at: "a", after: 0, limit: 1).joined(with: NodeAnswers([("b", odd), ("c", odd)]), limit: 1)
        #expect(none.calls.isEmpty)
    }

    private func device(_ id: String, at node: String?, state: String) -> BindingReport {
        BindingReport(
            id: id, name: "n\(id)", contact: "sip:bob@192.0.2.5", flow: nil, token: nil, isFresh: true, registeredAt: 0,
            state: state, node: node)
    }

    @Test func `the state of a device comes from its node, and is unknown if the node is silent`() {
        let own = [
            device("1", at: "a", state: "awake"), device("2", at: "b", state: "awake"),
            device("3", at: "c", state: "awake"), device("4", at: nil, state: "asleep"),
        ]
        var there = device("2", at: "b", state: "asleep")
        there.userAgent = "Linphone"
        let others = NodeAnswers(
            [("b", [there, device("1", at: "a", state: "asleep")])],
            missing: [MissingNode(node: "c", reason: "no answer in time")])
        let joined = own.joined(with: others)
        #expect(joined.map(\.state) == ["awake", "asleep", "unknown", "asleep"])
        #expect(joined.map(\.nodeProblem) == [nil, nil, "no answer in time", nil])
        #expect(joined[1].userAgent == "Linphone")
    }

    @Test func `a report adds active calls and names silent nodes, in words too`() {
        var own = ExplainReport(
            name: "bob@example.net", isUser: true, isKnown: true, date: Seconds(milliseconds: 0), keepsTimeline: true,
            maximumAge: 60)
        own.held = [call(1, at: "a")]
        var other = own
        other.held = [call(1, at: "?"), call(2, at: "?")]
        other.messages = 2
        own.messages = 1
        let missing = [MissingNode(node: "c", reason: "the connection failed")]
        let joined = own.joined(with: NodeAnswers([("b", other)], missing: missing))
        #expect(joined.held.map(\.node) == ["a", "b", "b"])
        #expect(joined.messages == 3)
        #expect(joined.missingNodes == missing)
        let lines = Explanation(joined).lines
        #expect(lines.contains("Node c did not answer: the connection failed"), "\(lines)")
        #expect(lines.contains { $0.contains("is active at node b") }, "\(lines)")
        #expect(!Explanation(own).lines.contains { $0.contains("did not answer") })
    }
}
