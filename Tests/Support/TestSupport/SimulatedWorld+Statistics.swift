import Bytes
import PushDelivery
import SIPGrammar

extension SimulatedWorld {
    /// The numbers of events of a simulated day. Tests check that enough events of each kind happened, because a day
    /// without events would prove nothing.
    package struct Statistics {
        package var answered = 0
        package var refused = 0
        package var cancelled = 0
        package var unanswered = 0
        package var withoutFinal = 0
        package var reports = 0
        package var pushes = 0
        package var records = 0
        /// A digest of all events of calls, phones and timeline records, to compare two days.
        package var digest: UInt64 = 0xcbf2_9ce4_8422_2325

        package init() {}

        package mutating func add(_ other: Statistics) {
            answered += other.answered
            refused += other.refused
            cancelled += other.cancelled
            unanswered += other.unanswered
            withoutFinal += other.withoutFinal
            reports += other.reports
            pushes += other.pushes
            records += other.records
            note(other.digest)
        }

        fileprivate mutating func note(_ value: UInt64) { digest = (digest ^ value) &* 0x100_0000_01b3 }

        fileprivate mutating func note(_ text: String) { for byte in text.utf8 { note(UInt64(byte)) } }
    }

    package var statistics: Statistics {
        var found = Statistics()
        for call in calls {
            switch call.finals.first?.code {
            case 200: found.answered += 1
            case 487: found.cancelled += 1
            case 480, 408: found.unanswered += 1
            case nil: found.withoutFinal += 1
            default: found.refused += 1
            }
            found.reports += call.reports.values.reduce(0, +)
            for status in call.finals { found.note(UInt64(status.code)) }
            for (phone, count) in call.reports.sorted(by: { $0.key < $1.key }) { found.note("told \(phone) \(count)") }
            for phone in call.reached.sorted() { found.note("reached \(phone)") }
        }
        found.pushes = phones.reduce(0) { $0 + $1.pushes }
        let records = nodes.flatMap(\.timeline.records)
        found.records = records.count
        for record in records {
            let steps = record.steps
            found.note("\(record.callID.string) \(record.end?.rawValue ?? "") \(record.omission.map { "\($0)" } ?? "")")
            for step in [steps.registered, steps.invited, steps.rang, steps.ended] {
                found.note(UInt64(truncatingIfNeeded: step ?? -1))
            }
        }
        if let cluster { found.note(cluster.digest) }
        return found
    }
}
