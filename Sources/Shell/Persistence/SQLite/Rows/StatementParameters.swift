import Storage

extension Statement: SQLParameters {}

extension Connection {
    /// Prepares the statement and binds its parameters, in their order.
    func statement<each Parameter: SQLParameter>(
        _ sql: String, with parameters: repeat each Parameter
    ) throws(SQLError) -> Statement {
        let statement = try statement(sql)
        statement.bind(repeat each parameters)
        return statement
    }

    func run<each Parameter: SQLParameter>(
        _ sql: StaticString, _ parameters: repeat each Parameter
    ) throws(SQLError) {
        let statement = try statement(fixed: sql)
        statement.bind(repeat each parameters)
        try statement.run()
    }
}

extension Statement {
    fileprivate func bind<each Parameter: SQLParameter>(_ parameters: repeat each Parameter) {
        var values = ParameterList(self)
        for parameter in repeat each parameters { values.add(parameter) }
    }
}

extension Connection {
    /// Runs a fixed statement of the program with the parameters that `values` binds.
    func run(_ sql: StaticString, values: (inout ParameterList<Statement>) -> Void) throws(SQLError) {
        let statement = try statement(fixed: sql)
        var list = ParameterList(statement)
        values(&list)
        try statement.run()
    }
}
