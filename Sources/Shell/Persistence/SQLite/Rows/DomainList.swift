import Bytes
import JSON
import Storage

/// The domains whose rows a statement selects. The list of domains is one parameter, so that the statement's text does
/// not depend on the number of domains. NULL as the parameter selects the rows of all domains.
struct DomainList: SQLParameter {
    let domains: [ByteString]

    /// Returns the SQL condition that the column is one of the domains in the parameter with the given number.
    static func contains(_ column: String, _ parameter: Int) -> String {
        "(?\(parameter) IS NULL OR \(column) IN (SELECT value FROM json_each(?\(parameter))))"
    }

    func bind(to statement: some SQLParameters, at index: Int) {
        statement.bind(index, text: JSONValue.array(domains.map { .string($0.string) }).bytes.span)
    }
}
