use std::sync::Arc; use std::time::Instant;
use arrow::array::*; use arrow::datatypes::*; use state_codec::*;
#[test] fn perf() {
    let n=65536usize;
    let i: ArrayRef=Arc::new(Int64Array::from_iter_values((0..n as i64).map(|x|x*77)));
    let inl: ArrayRef=Arc::new(Int64Array::from_iter((0..n as i64).map(|x|(x%7!=0).then_some(x))));
    let s: ArrayRef=Arc::new(StringArray::from_iter_values((0..n).map(|x|format!("N{}",x%9999))));
    let l: ArrayRef=Arc::new(StringArray::from_iter_values((0..n).map(|x|format!("N{:0200}",x%9999))));
    let d: ArrayRef={let mut b=StringDictionaryBuilder::<Int32Type>::new(); for x in 0..n {b.append_value(format!("Nvalue{}",x%999));} Arc::new(b.finish())};
    let t: ArrayRef=Arc::new(TimestampMicrosecondArray::from_iter_values((0..n as i64).map(|x|x*77777)));
    let idx: Vec<u32>=(0..n as u32).step_by(3).collect();
    for (name,c) in [("i64",vec![i.clone()]),("i64null",vec![inl.clone()]),("4 i64",vec![i.clone();4]),("str",vec![s.clone()]),("str200",vec![l.clone()]),("dict",vec![d.clone()]),("ts us",vec![t.clone()]),("mix",vec![i.clone(),s.clone(),l.clone(),t.clone(),inl.clone()])] {
        let f:Vec<FieldRef>=c.iter().map(|c|Arc::new(Field::new("c",c.data_type().clone(),true))).collect();
        let lay=RowLayout::new(&f,RowForm::Payload).unwrap(); let mut r=Rows::new();
        let mut best=f64::MAX; let mut besti=f64::MAX; let mut bestd=f64::MAX;
        for _ in 0..20 { r.clear(); let a=Instant::now(); lay.encode_into(&c,Select::Indices(&idx),&mut r).unwrap(); besti=besti.min(a.elapsed().as_nanos() as f64/idx.len() as f64);
          r.clear(); let a=Instant::now(); lay.encode_into(&c,Select::All,&mut r).unwrap(); best=best.min(a.elapsed().as_nanos() as f64/n as f64);
          let v:Vec<&[u8]>=r.iter().collect(); let a=Instant::now(); let o=lay.decode(&v).unwrap(); bestd=bestd.min(a.elapsed().as_nanos() as f64/n as f64); drop(o);}
        println!("{name}: all {best:.1} ns/row, indices {besti:.1}, decode {bestd:.1}");
    }
}
