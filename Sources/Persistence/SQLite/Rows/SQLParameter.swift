import Addressing
import Bytes
import PushDelivery
import Storage
import Timekeeping

/// A value that can be bound to a `?` of a statement.
protocol SQLParameter {
    func bind(to statement: Statement, at index: Int)
}

extension Connection {
    /// The statement with its parameters, in their order.
    func statement<each Parameter: SQLParameter>(
        _ sql: String, with parameters: repeat each Parameter
    ) throws(SQLError) -> Statement {
        let statement = try statement(sql)
        var index = 0
        for parameter in repeat each parameters {
            index += 1
            parameter.bind(to: statement, at: index)
        }
        return statement
    }

    func run<each Parameter: SQLParameter>(
        _ sql: String, _ parameters: repeat each Parameter
    ) throws(SQLError) {
        try statement(sql, with: repeat each parameters).run()
    }
}

extension String: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, text: self) }
}

/// Byte strings are bound as text, which may hold any bytes.
extension ByteString: SQLParameter {
    func bind(to statement: Statement, at index: Int) { withSpan { statement.bind(index, text: $0) } }
}

/// Bytes are bound as a blob.
extension [UInt8]: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, blob: span) }
}

extension SQLParameter where Self: BinaryInteger {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: Int64(self)) }
}

extension Int64: SQLParameter {}
extension Int: SQLParameter {}
extension Int32: SQLParameter {}
extension UInt32: SQLParameter {}
extension UInt16: SQLParameter {}

/// SQLite knows no unsigned numbers: those of the upper half are stored as negative ones.
extension UInt64: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: Int64(bitPattern: self)) }
}

extension Bool: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: self ? 1 : 0) }
}

extension UnixTime: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: milliseconds) }
}

extension DeviceID: SQLParameter {
    func bind(to statement: Statement, at index: Int) { rawValue.bind(to: statement, at: index) }
}

extension CallRef: SQLParameter {
    func bind(to statement: Statement, at index: Int) { description.bind(to: statement, at: index) }
}

extension PushCode: SQLParameter {
    func bind(to statement: Statement, at index: Int) { description.bind(to: statement, at: index) }
}

extension Optional: SQLParameter where Wrapped: SQLParameter {
    func bind(to statement: Statement, at index: Int) {
        if let self { self.bind(to: statement, at: index) } else { statement.bindNull(index) }
    }
}
