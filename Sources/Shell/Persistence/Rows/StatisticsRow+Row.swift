import Collections
import Timekeeping

extension StoredRow {
    func statistics(_ grouping: StatisticsQuestion.Grouping) -> StatisticsRow {
        let subject: StatisticsRow.Subject =
            switch grouping {
            case .app: .app(text(0))
            case .day: .day(integer(0))
            case .push:
                .push(
                    StatisticsRow.Push(
                        code: text(8), date: UnixTime(milliseconds: integer(9)).seconds,
                        kind: text(10), app: text(11)))
            }
        return StatisticsRow(subject: subject, figures: (1...7).map { integer($0) })
    }
}
