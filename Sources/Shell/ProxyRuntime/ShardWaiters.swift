import AccessLimits
import Collections
import LocationService
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Telemetry
import Timekeeping

/// The services and operators that wait for an answer of the engine, by ticket.
///
/// ``ShardWaiters`` is `~Copyable`, because the shard reads it in each turn of the loop. A copy would retain all tables.
struct ShardWaiters: ~Copyable {
    typealias Report = @Sendable (ProxyEngine, ReportTicket, Moment) -> Void
    typealias Reporter = CheckedContinuation<ReportResult, Never>

    /// The services that wait for the results of reports.
    var reporters: [ReportTicket: Reporter] = [:]
    /// Reports of devices that wait until the engine accepts another report. Few reports wait, because the services
    /// limit the number of reports.
    var queuedReports = Queue<(reporter: Reporter, report: Report)>()
    /// The silent pushes of ``ProxyShard/canBePushed(_:)`` without a result.
    var dryRuns: [DryRunTicket: CheckedContinuation<Bool, Never>] = [:]
    /// The operators' questions that wait until the store has answered about a user.
    var looks: [LookTicket: CheckedContinuation<Bool, Never>] = [:]
    /// The logins that wait until a source of users has answered.
    var logins: [LoginTicket: CheckedContinuation<Void, Never>] = [:]
    var tests: [TestPushTicket: Test] = [:]
    private var lastNumber: UInt64 = 0

    /// An ordered test push whose results have not all arrived.
    struct Test {
        var missing: Int
        var records: [TimelineRecord] = []
        var waiter: CheckedContinuation<[TimelineRecord], Never>?
    }

    /// The maximum number of reports that the engine commits at a time. The limit of two reports lets a REGISTER wait
    /// for at most two reports, and calls are served while the disk works.
    private static let reportLimit = 2

    /// Whether the engine may get another report.
    var acceptsReport: Bool { reporters.count < Self.reportLimit }

    /// The number of the next ticket.
    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Notes the result of a test push.
    mutating func testEnded(_ ticket: TestPushTicket, _ record: TimelineRecord) {
        tests[ticket]?.records.append(record)
        guard let test = tests[ticket], test.records.count >= test.missing else { return }
        test.waiter?.resume(returning: test.records)
        tests[ticket]?.waiter = nil
    }
}
