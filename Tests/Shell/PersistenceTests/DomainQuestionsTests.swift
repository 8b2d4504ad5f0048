import Addressing
import Bytes
import Collections
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Storage
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// Tests that the store's answer to a caller of some domains has no rows of other domains (T41.7).
@Suite("Questions about domains", .timeLimit(.minutes(10)))
struct DomainQuestionsTests {
    private let folder: StoreFolder
    private let date = UnixTime(seconds: 1_800_000_000)

    init() throws { folder = try StoreFolder() }

    private let own = ByteString("a.example")
    private let other = ByteString("b.example")

    private func record(
        _ push: UInt64, in host: ByteString, device: DeviceID, user: String = "bob", callID: String = "c1",
        app: String = "fcm"
    ) -> TimelineRecord {
        var record = TimelineRecord(
            id: .init(rawValue: 0), kind: .call, user: ByteString(user), host: host, device: device,
            callRef: CallRef(rawValue: 7), callID: ByteString(callID), requestedAt: date, omission: nil,
            code: .sample(push), app: app)
        record.delivery = .finished
        record.answer = .accepted
        record.tries = 1
        record.source = ByteString("192.0.2.7:5060")
        return record
    }

    private func write(_ changes: [RowChange]) async throws {
        let writer = try ObservedWriter(folder)
        #expect(await writer.write(changes) == true)
        writer.writer.stop()
    }

    @Test func `the timeline has only records of the domains, whatever names them`() async throws {
        var refused = record(9, in: other, device: .nobody)
        refused.refused(.foreignDomain, 403, share: .user)
        let records = [
            record(1, in: own, device: 1), record(1, in: other, device: 2), record(2, in: other, device: 2),
            record(3, in: ByteString(#"a.example","b.example"#), device: 3),
        ]
        try await write(records.map { .timeline(.record($0)) } + [.timeline(.record(refused))])
        let bob = AddressOfRecord(user: ByteString("bob"), host: other)
        for subject in [
            .user(bob), .callID(ByteString("c1")), .call(CallRef(rawValue: 7)), .push(.sample(1)), .push(.sample(2)),
            .source(ByteString("192.0.2.7")), .number(ByteString("bob")),
        ] as [TimelineSubject] {
            let found = try folder.read { try $0.timeline(of: subject, limit: 9, in: [own]) }
            #expect(found.allSatisfy { $0.host == own } && found.count <= 1, "\(subject): \(found)")
            #expect(found.isEmpty == (subject == .user(bob) || subject == .push(.sample(2))), "\(subject)")
            #expect(try folder.read { try $0.timeline(of: subject, limit: 9, in: []) }.isEmpty, "\(subject)")
            let all = try folder.read { try $0.timeline(of: subject, limit: 9, in: nil) }
            #expect(all.contains { $0.host == other }, "\(subject)")
            #expect(
                try folder.read { try $0.timeline(of: subject, limit: 9, in: [own, other]) }.count
                    == all.count { $0.host == own || $0.host == other }, "\(subject)")
        }
        let refusals = try folder.read { try $0.refusals(of: .callID(ByteString("c1")), limit: 9, in: [own]) }
        #expect(refusals.isEmpty)
        #expect(try folder.read { try $0.refusals(of: .callID(ByteString("c1")), limit: 9, in: [other]) }.count == 1)
    }

    @Test func `statistics count only devices of the domains, on pages too`() async throws {
        // The daemon sent one push to devices of both domains, first to the device of the second domain.
        let records = [
            record(1, in: other, device: 2, app: "apns"), record(1, in: own, device: 1),
            record(2, in: other, device: 2), record(3, in: own, device: 1), record(4, in: .empty, device: .nobody),
        ]
        try await write(records.map { .timeline(.record($0)) })
        func rows(_ domains: [ByteString]?, by: StatisticsQuestion.Grouping) throws -> [StatisticsRow] {
            var asked = StatisticsQuestion()
            (asked.by, asked.domains, asked.limit) = (by, domains, 1)
            var rows: [StatisticsRow] = []
            var place: PageCursor? = .beginning
            while let after = place {
                asked.after = after
                let page = try folder.read { [asked] in try $0.statistics(asked) }
                #expect(by != .push || page.elements.count <= 1)
                rows += page.elements
                place = page.next
            }
            return rows
        }
        for (domains, days, apps, pushes) in [
            (nil, [5], ["apns": 1, "fcm": 4], [2, 1, 1, 1]), ([own], [2], ["fcm": 2], [1, 1]),
            ([other], [2], ["apns": 1, "fcm": 1], [1, 1]), ([own, other], [4], ["apns": 1, "fcm": 3], [2, 1, 1]),
            ([], [], [:], []), ([ByteString("A.example")], [], [:], []),
        ] as [([ByteString]?, [Int64], [String: Int64], [Int64])] {
            #expect(try rows(domains, by: .day).map { $0.figures[0] } == days)
            #expect(try rows(domains, by: .push).map { $0.figures[0] } == pushes)
            var byApp: [String: Int64] = [:]
            for row in try rows(domains, by: .app) {
                if case .app(let name) = row.subject { byApp[name] = row.figures[0] }
            }
            #expect(byApp == apps)
        }
    }

    @Test func `dead tokens of the domains are read page by page`() async throws {
        let hosts = [own, other, .empty, own, other, own]
        let dead = hosts.enumerated().map { number, host in
            DeadToken(
                token: PushToken(provider: .fcm, param: .empty, prid: ByteString("\(number)")), since: date,
                recordedAt: date, source: .provider, domain: host)
        }
        try await write(dead.map { .engine(.deadToken($0)) })
        func tokens(_ domains: [ByteString]?) throws -> [DeadToken] {
            var tokens: [DeadToken] = []
            var place: PageCursor? = .beginning
            while let after = place {
                let page = try folder.read { try $0.deadTokens(since: date, after: after, limit: 2, in: domains) }
                #expect(page.elements.count <= 2)
                tokens += page.elements
                place = page.next
            }
            return tokens
        }
        #expect(try tokens(nil) == dead)
        #expect(try tokens([own]) == [dead[0], dead[3], dead[5]])
        #expect(try tokens([other, own]) == [dead[0], dead[1], dead[3], dead[4], dead[5]])
        #expect(try tokens([]).isEmpty)
    }

    @Test func `users of the realms are read page by page`() throws {
        let names = [("b", "b.example"), ("a", "a.example"), ("z", "a.example"), ("m", "c"), ("a", "b.example")]
        try folder.keep(
            names.map {
                .addUser(DigestUser(name: ByteString($0), realm: ByteString($1), ha1: [.md5: ByteString("x")]))
            })
        func users(_ realms: [String]?, limit: Int) throws -> [String] {
            var all: [String] = []
            var last = (ByteString.empty, ByteString.empty)
            while true {
                let page = try folder.read { [last] in
                    try $0.userNames(after: last.0, in: last.1, limit: limit, of: realms?.map { ByteString($0) })
                }
                #expect(page.count <= limit)
                guard let end = page.last?.split(separator: "@") else { return all }
                all += page
                last = (ByteString(String(end[0])), ByteString(String(end[1])))
            }
        }
        for limit in [1, 2, 9] {
            #expect(
                try users(nil, limit: limit) == ["a@a.example", "z@a.example", "a@b.example", "b@b.example", "m@c"])
            #expect(try users(["c", "a.example"], limit: limit) == ["a@a.example", "z@a.example", "m@c"])
            #expect(try users(["b.example"], limit: limit) == ["a@b.example", "b@b.example"])
            #expect(try users([], limit: limit).isEmpty)
        }
    }

    @Test(.onlySQLite) func `keys and dead tokens of an older store belong to the whole daemon`() throws {
        do {
            let old = try Connection(path: folder.path, options: ConnectionOptions())
            try old.migrate(Array(StoreSchema.scripts.prefix(16)), applicationID: StoreSchema.applicationID)
            try old.execute(
                """
                INSERT INTO api_key VALUES ('old', '\(String(repeating: "0", count: 64))', 'admin', 5);
                INSERT INTO dead_token (recorded_at, since, provider, param, token, source)
                VALUES (1, 1, 'fcm', 'p', 'old', 'provider');
                """)
        }
        let keys = try folder.opened().keys()
        #expect(keys.map(\.name) == ["old"] && keys.map(\.domains) == [""])
        let start = UnixTime(seconds: 0)
        let whole = try folder.read { try $0.deadTokens(since: start, after: .beginning, limit: 9, in: nil) }
        #expect(whole.elements.map(\.domain) == [.empty])
        #expect(
            try folder.read { try $0.deadTokens(since: start, after: .beginning, limit: 9, in: [own]) }.elements.isEmpty
        )
    }
}
